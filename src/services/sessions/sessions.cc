#include "services/sessions/sessions.h"

#include <utility>

#include "services/sessions/history.h"
#include "services/sessions/session_actor.h"

namespace tutti::sessions {
namespace {

// Calls a function of the actor with these arguments and `done`, on its strand; refuses the call if
// too many wait. A caller on the strand calls the actor directly.
template <typename Call, typename Done, typename... Arguments>
void Ask(Strand& strand, SessionActor& actor, Call call, Done done, Arguments... arguments) {
  const auto task = [&actor, call, ... arguments = std::move(arguments)](const Done& reply) {
    (actor.*call)(arguments..., reply);
  };
  if (strand.OnThisThread()) return task(done);
  if (strand.TryPost([done, task] { task(done); })) return;
  done(Unavailable("overloaded", "too many calls to the sessions wait"));
}

SessionActor::Which OfProject(const std::string& tenant, const std::string& project) {
  return [tenant, project](store::Database& rows) -> Result<std::vector<SessionKey>> {
    ASSIGN_OR_RETURN(std::vector<SessionKey> keys, SessionsOf(rows, {tenant, ""}));
    std::erase_if(keys, [&](const SessionKey& key) { return key.project != project; });
    return keys;
  };
}

}  // namespace

Sessions::Sessions(const SessionOptions& options, api::Inference& inference, store::Store& store,
                   responses::Responses& responses, const Clock& clock,
                   std::function<int64_t()> unix_s)
    : strand_(responses.strand()),
      actor_(std::make_unique<SessionActor>(options, inference, store, responses, clock,
                                            std::move(unix_s))) {
  responses.TurnsWait(&HasPendingTurn);
}

Sessions::~Sessions() { strand_->Stop(); }

void Sessions::Resume() {
  strand_->Post([actor = actor_.get()] { actor->Resume(); });
}

void Sessions::Submit(const SessionKey& key, Message message, Done<Acceptance> done) {
  Ask(*strand_, *actor_, &SessionActor::Submit, std::move(done), key, std::move(message));
}

void Sessions::Owed(const OwedPlace& after, int64_t most, Done<std::vector<OwedAnswer>> done) {
  actor_->ask().Read([after, most](store::Database& rows) { return ReadOwed(rows, after, most); },
                     std::move(done));
}

void Sessions::Again(const SessionKey& key, const std::string& message_id, Done<Acceptance> done) {
  Ask(*strand_, *actor_, &SessionActor::Again, std::move(done), key, message_id);
}

void Sessions::Arrived(const SessionKey& key, int64_t turn) {
  actor_->ask().Write(
      [key, turn](store::Database& rows) -> Result<int64_t> {
        RETURN_IF_ERROR(ForgetOwed(rows, key, turn));
        return turn;
      },
      [](const Result<int64_t>&) {});  // if it fails, the next process sends the answer again
}

void Sessions::Cancel(const SessionKey& key, const std::string& message_id, Callback done) {
  Ask(*strand_, *actor_, &SessionActor::Cancel, std::move(done), key, message_id,
      /*keeps=*/false);
}

void Sessions::Clear(const SessionKey& key, Callback done) {
  Ask(*strand_, *actor_, &SessionActor::Clear, std::move(done), key, std::nullopt, /*whole=*/false);
}

void Sessions::Delete(const SessionKey& key, std::optional<int64_t> expected_version,
                      Callback done) {
  Ask(*strand_, *actor_, &SessionActor::Clear, std::move(done), key, expected_version,
      /*whole=*/true);
}

void Sessions::SetSystemPrompt(const SessionKey& key, std::string prompt, Callback done) {
  Ask(*strand_, *actor_, &SessionActor::SetSystemPrompt, std::move(done), key, std::move(prompt));
}

void Sessions::ClearProject(const std::string& tenant, const std::string& project,
                            Done<int64_t> done) {
  Ask(*strand_, *actor_, &SessionActor::ClearAll, std::move(done), OfProject(tenant, project),
      /*whole=*/false);
}

void Sessions::DeleteProject(const std::string& tenant, const std::string& project,
                             Done<int64_t> done) {
  Ask(*strand_, *actor_, &SessionActor::ClearAll, std::move(done), OfProject(tenant, project),
      /*whole=*/true);
}

void Sessions::SetProjectPrompt(const std::string& tenant, const std::string& project,
                                std::string prompt, Done<int64_t> done) {
  Ask(*strand_, *actor_, &SessionActor::SetProjectPrompt, std::move(done), tenant, project,
      std::move(prompt));
}

void Sessions::Fork(const SessionKey& from, const SessionKey& to, const ForkBegin& begin,
                    Done<Conversation> done) {
  Ask(*strand_, *actor_, &SessionActor::Fork, std::move(done), from, to, begin);
}

void Sessions::History(const SessionKey& key, const ItemPage& page, Done<ItemList> done) {
  actor_->ask().Read([key, page](store::Database& rows) { return ListItems(rows, key, page); },
                     std::move(done));
}

void Sessions::GetItem(const SessionKey& key, const std::string& item_id, Done<Item> done) {
  actor_->ask().Read([key, item_id](store::Database& rows) { return LoadItem(rows, key, item_id); },
                     std::move(done));
}

void Sessions::AppendItems(const SessionKey& key, std::vector<api::ChatMessage> items,
                           std::optional<int64_t> expected_version, Done<ItemList> done) {
  Ask(*strand_, *actor_, &SessionActor::AppendItems, std::move(done), key, std::move(items),
      expected_version);
}

void Sessions::DeleteItem(const SessionKey& key, const std::string& item_id,
                          std::optional<int64_t> expected_version, Done<Conversation> done) {
  Ask(*strand_, *actor_, &SessionActor::DeleteItem, std::move(done), key, item_id,
      expected_version);
}

void Sessions::CreateConversation(const std::string& tenant, const std::string& owner,
                                  std::string metadata, std::vector<api::ChatMessage> items,
                                  Done<Conversation> done) {
  Ask(*strand_, *actor_, &SessionActor::CreateConversation, std::move(done), tenant, owner,
      std::move(metadata), std::move(items));
}

void Sessions::GetConversation(const SessionKey& key, Done<Conversation> done) {
  actor_->ask().Read([key](store::Database& rows) { return LoadConversation(rows, key); },
                     std::move(done));
}

void Sessions::ListConversations(const std::string& tenant, const ConversationPage& page,
                                 Done<ConversationList> done) {
  actor_->ask().Read(
      [tenant, page](store::Database& rows) {
        return sessions::ListConversations(rows, tenant, page);
      },
      std::move(done));
}

void Sessions::SetMetadata(const SessionKey& key, std::string metadata,
                           std::optional<int64_t> expected_version, Done<Conversation> done) {
  Ask(*strand_, *actor_, &SessionActor::SetMetadata, std::move(done), key, std::move(metadata),
      expected_version);
}

void Sessions::Export(const Subject& subject, const ExportPage& page, Done<ExportedLines> done) {
  actor_->ask().Read(
      [subject, page](store::Database& rows) { return ExportDialogs(rows, subject, page); },
      std::move(done));
}

void Sessions::Import(const Subject& subject, std::string line, Callback done) {
  Ask(*strand_, *actor_, &SessionActor::Import, std::move(done), subject, std::move(line));
}

void Sessions::DeleteAll(const Subject& subject, Done<int64_t> done) {
  Ask(*strand_, *actor_, &SessionActor::DeleteAll, std::move(done), subject);
}

const responses::HoldTimes& Sessions::hold_times() const { return actor_->hold_times(); }

void Sessions::Count(std::function<void(Counts)> done) {
  strand_->Post([actor = actor_.get(), done = std::move(done)] {
    done({actor->resident(), actor->idle()});
  });
}

void Sessions::ListActive(size_t max, std::function<void(ActiveList)> done) {
  strand_->Post(
      [actor = actor_.get(), max, done = std::move(done)] { done(actor->ListActive(max)); });
}

}  // namespace tutti::sessions
