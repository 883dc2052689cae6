#include "services/sessions/sessions.h"

#include <utility>

#include "services/sessions/history.h"
#include "services/sessions/session_actor.h"

namespace tutti::sessions {
namespace {

// Runs a call to the actor on its strand; refuses it if too many calls wait. A caller on the strand
// calls the actor directly.
template <typename Done, typename Task>
void Ask(Strand& strand, Done done, Task task) {
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
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), key, message = std::move(message)](const Done<Acceptance>& told) {
        actor->Submit(key, message, told);
      });
}

void Sessions::Owed(const OwedPlace& after, int64_t most, Done<std::vector<OwedAnswer>> done) {
  actor_->ask().Read([after, most](store::Database& rows) { return ReadOwed(rows, after, most); },
                     std::move(done));
}

void Sessions::Again(const SessionKey& key, const std::string& message_id, Done<Acceptance> done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), key, message_id](const Done<Acceptance>& told) {
        actor->Again(key, message_id, told);
      });
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
  Ask(*strand_, std::move(done), [actor = actor_.get(), key, message_id](const Callback& told) {
    actor->Cancel(key, message_id, told);
  });
}

void Sessions::Clear(const SessionKey& key, Callback done) {
  Ask(*strand_, std::move(done), [actor = actor_.get(), key](const Callback& told) {
    actor->Clear(key, std::nullopt, false, told);
  });
}

void Sessions::Delete(const SessionKey& key, std::optional<int64_t> expected_version,
                      Callback done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), key, expected_version](const Callback& told) {
        actor->Clear(key, expected_version, true, told);
      });
}

void Sessions::SetSystemPrompt(const SessionKey& key, std::string prompt, Callback done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), key, prompt = std::move(prompt)](const Callback& told) {
        actor->SetSystemPrompt(key, prompt, told);
      });
}

void Sessions::ClearProject(const std::string& tenant, const std::string& project,
                            Done<int64_t> done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), which = OfProject(tenant, project)](const Done<int64_t>& told) {
        actor->ClearAll(which, /*whole=*/false, told);
      });
}

void Sessions::DeleteProject(const std::string& tenant, const std::string& project,
                             Done<int64_t> done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), which = OfProject(tenant, project)](const Done<int64_t>& told) {
        actor->ClearAll(which, /*whole=*/true, told);
      });
}

void Sessions::SetProjectPrompt(const std::string& tenant, const std::string& project,
                                std::string prompt, Done<int64_t> done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), tenant, project, prompt = std::move(prompt)](
          const Done<int64_t>& told) { actor->SetProjectPrompt(tenant, project, prompt, told); });
}

void Sessions::Fork(const SessionKey& from, const SessionKey& to, const ForkBegin& begin,
                    Done<Conversation> done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), from, to, begin](const Done<Conversation>& told) {
        actor->Fork(from, to, begin, told);
      });
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
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), key, items = std::move(items), expected_version](
          const Done<ItemList>& told) { actor->AppendItems(key, items, expected_version, told); });
}

void Sessions::DeleteItem(const SessionKey& key, const std::string& item_id,
                          std::optional<int64_t> expected_version, Done<Conversation> done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), key, item_id, expected_version](const Done<Conversation>& told) {
        actor->DeleteItem(key, item_id, expected_version, told);
      });
}

void Sessions::CreateConversation(const std::string& tenant, const std::string& owner,
                                  std::string metadata, std::vector<api::ChatMessage> items,
                                  Done<Conversation> done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), tenant, owner, metadata = std::move(metadata),
       messages = std::move(items)](const Done<Conversation>& told) {
        actor->CreateConversation(tenant, owner, metadata, messages, told);
      });
}

void Sessions::GetConversation(const SessionKey& key, Done<Conversation> done) {
  actor_->ask().Read([key](store::Database& rows) { return LoadConversation(rows, key); },
                     std::move(done));
}

void Sessions::SetMetadata(const SessionKey& key, std::string metadata,
                           std::optional<int64_t> expected_version, Done<Conversation> done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), key, metadata = std::move(metadata),
       expected_version](const Done<Conversation>& told) {
        actor->SetMetadata(key, metadata, expected_version, told);
      });
}

void Sessions::Export(const Subject& subject, const ExportPage& page, Done<ExportedLines> done) {
  actor_->ask().Read(
      [subject, page](store::Database& rows) { return ExportDialogs(rows, subject, page); },
      std::move(done));
}

void Sessions::Import(const Subject& subject, std::string line, Callback done) {
  Ask(*strand_, std::move(done),
      [actor = actor_.get(), subject, line = std::move(line)](const Callback& told) {
        actor->Import(subject, line, told);
      });
}

void Sessions::DeleteAll(const Subject& subject, Done<int64_t> done) {
  Ask(*strand_, std::move(done), [actor = actor_.get(), subject](const Done<int64_t>& told) {
    actor->DeleteAll(subject, told);
  });
}

const responses::HoldTimes& Sessions::hold_times() const { return actor_->hold_times(); }

void Sessions::Count(std::function<void(Counts)> done) {
  strand_->Post([actor = actor_.get(), done = std::move(done)] {
    done({actor->resident(), actor->idle()});
  });
}

}  // namespace tutti::sessions
