// SessionActor: what is done to a session, or to all of a project; and items that enter or leave a
// dialog by other ways than a turn.
#include <algorithm>
#include <utility>

#include "base/random.h"
#include "protocol/responses/input_items.h"
#include "services/sessions/conversations.h"
#include "services/sessions/session_actor.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {
namespace {

struct RunningTurn {
  int64_t number = 0, place = 0;
};

// Fails if a running turn will add items before that place: a fork there would see them appear.
Status CheckNoneRuns(store::Database& rows, int64_t dialog, const std::vector<RunningTurn>& running,
                     int64_t place) {
  for (const RunningTurn& turn : running) {
    if (turn.place > place) continue;
    ASSIGN_OR_RETURN(store::Statement row,
                     rows.Prepare("SELECT 1 FROM turn WHERE dialog=?1 AND turn=?2 AND ended=1"));
    ASSIGN_OR_RETURN(const bool ended, row.Bind(dialog, turn.number).Step());
    if (!ended) {
      return Status(StatusCode::kAborted, "conversation_busy",
                    "a turn that began before others of this version is still being answered")
          .WithParam("version");
    }
  }
  return OkStatus();
}

}  // namespace

// Something that came back from the store has had its effect.
void SessionActor::Leave(const SessionPointer& session) {
  --session->pending;
  Advance(session);
}

void SessionActor::CancelAll(const SessionPointer& session) {
  std::vector<int64_t> turns;
  for (const auto& [number, turn] : session->turns) turns.push_back(number);
  for (const int64_t number : turns) GiveUp(session, number, CutShort::kForget);
}

// Forgets the items that the store has deleted; with `whole` also the session.
void SessionActor::Forget(Session& session, bool whole) {
  session.items.clear();
  session.first_place = 1;
  session.next_place = 1;
  std::erase_if(session.known,
                [&](const auto& known) { return !session.turns.contains(known.first); });
  session.queue->ForgetEnded();
  if (!whole) {
    ++session.version;
    return;
  }
  session.dialog = 0;
  session.version = 0;
  session.system_prompt.clear();
}

void SessionActor::Clear(const SessionKey& key, std::optional<int64_t> expected_version, bool whole,
                         Callback done) {
  Open(key, [this, expected_version, whole, done](const Result<SessionPointer>& opened) {
    if (!opened.ok()) return done(opened.status());
    const SessionPointer session = *opened;
    if (Status room = HasRoom(*session); !room.ok()) return done(room);
    // Checked before any cancellation, and again in the transaction, because a turn may be ending.
    if (expected_version.has_value()) {
      Status same = CheckVersion(session->version, expected_version);
      if (same.ok() && (!session->barriers.empty() || session->barrier_runs))
        same = Status(StatusCode::kFailedPrecondition, "version_mismatch",
                      "another change of the dialog is under way");
      if (!same.ok()) return done(same);
    }
    CancelAll(session);
    const int64_t last_turn = session->queue->Skip(0) - 1;
    AddBarrier(session, 0, [this, session, expected_version, last_turn, removes = whole, done] {
      if (session->dialog == 0) {  // it was never used
        done(CheckVersion(session->version, expected_version));
        return BarrierEnded(session);
      }
      // A session that was written to since goes on, as one just made.
      const bool all = removes && session->turns.empty();
      ask_.Write(
          [key = session->key, expected_version, last_turn, all, removes,
           now_s = unix_s_()](store::Database& rows) -> Result<bool> {
            if (expected_version.has_value()) {
              ASSIGN_OR_RETURN(const Conversation now, LoadConversation(rows, key));
              RETURN_IF_ERROR(CheckVersion(now.version, expected_version));
            }
            // The quota may have dropped it, and given its number to another.
            ASSIGN_OR_RETURN(const int64_t dialog, FindDialog(rows, key));
            if (dialog == 0) return true;
            if (all) {
              RETURN_IF_ERROR(DeleteDialog(rows, dialog));
              return true;
            }
            RETURN_IF_ERROR(ClearDialog(rows, dialog, now_s, last_turn));
            if (removes) RETURN_IF_ERROR(sessions::SetSystemPrompt(rows, dialog, "", now_s));
            return true;
          },
          [this, session, all, removes, done](const Result<bool>& cleared) {
            if (cleared.ok()) {
              const responses::CriticalSection section(&hold_times_);
              Forget(*session, all);
              if (removes) session->system_prompt.clear();
            }
            done(cleared.status());
            BarrierEnded(session);
          });
    });
  });
}

// Clears sessions in memory one by one, with their turns, and all others at once.
void SessionActor::ClearAll(Which which, bool whole, Done<int64_t> done) {
  ask_.Read(std::move(which), [this, whole, done](Result<std::vector<SessionKey>> keys) {
    if (!keys.ok()) return done(keys.status());
    struct Progress {
      size_t left = 1;
      Status failed;
    };
    const auto progress = std::make_shared<Progress>();
    const auto count = static_cast<int64_t>(keys->size());
    const auto one = [progress, count, done](const Status& status) {
      if (!status.ok()) progress->failed = status;
      if (--progress->left > 0) return;
      progress->failed.ok() ? done(count) : done(progress->failed);
    };
    std::vector<SessionKey> away;
    for (const SessionKey& key : *keys) {
      if (residency_.Find(key) == nullptr) {
        away.push_back(key);
        continue;
      }
      ++progress->left;
      Clear(key, std::nullopt, whole, one);
    }
    ask_.Write(
        [away, whole, now_s = unix_s_()](store::Database& rows) -> Result<bool> {
          for (const SessionKey& key : away) {
            ASSIGN_OR_RETURN(const std::optional<Dialog> dialog, LoadDialog(rows, key, INT64_MAX));
            if (!dialog.has_value()) continue;
            RETURN_IF_ERROR(whole ? DeleteDialog(rows, dialog->id)
                                  : ClearDialog(rows, dialog->id, now_s));
          }
          return true;
        },
        [one](const Result<bool>& cleared) { one(cleared.status()); });
  });
}

void SessionActor::DeleteAll(const Subject& subject, Done<int64_t> done) {
  const auto rest = [this, subject, done](Result<int64_t> dialogs) {
    if (!dialogs.ok() || !subject.session_prefix.empty()) return done(std::move(dialogs));
    ask_.Write(
        [tenant = subject.tenant, count = *dialogs](store::Database& rows) -> Result<int64_t> {
          RETURN_IF_ERROR(DeleteProfiles(rows, tenant));
          return count;
        },
        [this, subject, done](const Result<int64_t>& count) {
          if (!count.ok()) return done(count);
          residency_.ForEach([&](const SessionPointer& session) {
            if (session->key.tenant == subject.tenant) session->profile = {};
          });
          responses_.DeleteAll(subject.tenant, [done, count](const Status& status) {
            status.ok() ? done(count) : done(status);
          });
        });
  };
  ClearAll([subject](store::Database& rows) { return SessionsOf(rows, subject); }, /*whole=*/true,
           rest);
}

void SessionActor::SetSystemPrompt(const SessionKey& key, const std::string& prompt,
                                   Callback done) {
  if (prompt.size() > options_.message_bytes)
    return done(ResourceExhausted("request_too_large", "the system prompt is too long"));
  Open(key, [this, prompt, done](const Result<SessionPointer>& opened) {
    if (!opened.ok()) return done(opened.status());
    const SessionPointer session = *opened;
    ++session->pending;
    ++session->new_prompts;
    ask_.Write(
        [key = session->key, prompt, now_s = unix_s_(),
         limits = options_.dialogs](store::Database& rows) -> Result<DialogId> {
          ASSIGN_OR_RETURN(const DialogId dialog, EnsureNamedDialog(rows, key, "", now_s, limits));
          RETURN_IF_ERROR(sessions::SetSystemPrompt(rows, dialog.id, prompt, now_s));
          return dialog;
        },
        [this, session, prompt, done](const Result<DialogId>& dialog) {
          if (dialog.ok()) {
            const responses::CriticalSection section(&hold_times_);
            if (dialog->created && session->dialog != 0) Forget(*session, /*whole=*/true);
            session->dialog = dialog->id;
            session->system_prompt = prompt;
            session->used_s = unix_s_();
          }
          --session->new_prompts;
          done(dialog.status());
          Leave(session);
        });
  });
}

void SessionActor::SetProjectPrompt(const std::string& tenant, const std::string& project,
                                    const std::string& prompt, Done<int64_t> done) {
  if (prompt.size() > options_.message_bytes)
    return done(ResourceExhausted("request_too_large", "the system prompt is too long"));
  ask_.Write([tenant, project, prompt, most = options_.projects_per_tenant](
                 store::Database& rows) { return SetProfile(rows, tenant, project, prompt, most); },
             [this, tenant, project, prompt, done](const Result<int64_t>& version) {
               if (!version.ok()) return done(version);
               SetProfiles(tenant, project, {*version, prompt});
               done(version);
             });
}

void SessionActor::SetProfiles(const std::string& tenant, const std::string& project,
                               const Profile& profile) {
  residency_.ForEach([&](const SessionPointer& session) {
    if (session->key.tenant == tenant && session->key.project == project)
      session->profile = profile;
  });
}

void SessionActor::Fork(const SessionKey& from, const SessionKey& to, const ForkBegin& begin,
                        Done<Conversation> done) {
  if (Status status = CheckKey(to); !status.ok()) return done(status);
  const Status taken = InvalidArgument("invalid_value", "there is such a session already");
  if (const SessionPointer resident = residency_.Find(to); resident != nullptr) {
    if (!resident->idle() || resident->dialog != 0) return done(taken);
    residency_.Remove(resident);  // known by name only
  }
  Open(from, [this, to, taken, begin, done](const Result<SessionPointer>& opened) {
    if (!opened.ok()) return done(opened.status());
    const SessionPointer session = *opened;
    // A turn that runs is not part of it, nor what began after it and has ended before.
    int64_t place = session->next_place - 1;
    std::vector<RunningTurn> running;
    for (const int64_t number : session->queue->running()) {
      running.push_back({number, session->turns.at(number).place});
      place = std::min(place, running.back().place - 1);
    }
    ++session->pending;
    ask_.Write(
        [from = session->key, to, place, running, taken, begin, now_s = unix_s_(),
         limits = options_.dialogs](store::Database& rows) -> Result<Conversation> {
          ASSIGN_OR_RETURN(const std::optional<Dialog> dialog, LoadDialog(rows, from, INT64_MAX));
          if (!dialog.has_value()) return NotFound("not_found", "there is no such dialog");
          RETURN_IF_ERROR(CheckVersion(dialog->version, begin.expected_version));
          ForkPoint at{dialog->version, place, dialog->first_place};
          if (!begin.before_item.empty()) {
            ASSIGN_OR_RETURN(const Item item, LoadItem(rows, from, begin.before_item));
            ASSIGN_OR_RETURN(at, FindStateBefore(rows, *dialog, item.place));
          } else if (begin.version.has_value()) {
            ASSIGN_OR_RETURN(at, FindVersion(rows, *dialog, *begin.version));
          }
          if (begin.version.has_value() || !begin.before_item.empty()) {
            RETURN_IF_ERROR(CheckNoneRuns(rows, dialog->id, running, at.place));
          }
          ASSIGN_OR_RETURN(const std::optional<Dialog> there, LoadDialog(rows, to, INT64_MAX));
          if (there.has_value()) return taken;
          const std::string owner = begin.owner.empty() ? OwnerOf(to) : begin.owner;
          RETURN_IF_ERROR(MakeRoom(rows, to.tenant, owner, limits, /*spared=*/dialog->id));
          RETURN_IF_ERROR(ForkDialog(rows, dialog->id, at, to, now_s, owner).status());
          if (begin.metadata.has_value())
            RETURN_IF_ERROR(SetMetadataRow(rows, to, *begin.metadata, now_s));
          return LoadConversation(rows, to);
        },
        [this, session, done](Result<Conversation> fork) {
          done(std::move(fork));
          Leave(session);
        });
  });
}

// --- items ---

// Counted with the default model's tokenizer: which model will answer is not known yet.
Result<std::vector<Item>> SessionActor::ItemsOf(const std::vector<api::ChatMessage>& messages) {
  size_t bytes = 0;
  for (const api::ChatMessage& message : messages) bytes += CountedText(ItemOf(message)).size();
  if (bytes > options_.message_bytes) {
    return ResourceExhausted("request_too_large", "the items are too long")
        .WithExcess(static_cast<int64_t>(bytes), static_cast<int64_t>(options_.message_bytes));
  }
  ASSIGN_OR_RETURN(const TokenCounter::Template around, counter_.TemplateOf(""));
  std::vector<Item> items;
  for (const api::ChatMessage& message : messages) {
    Item item = ItemOf(message);
    ASSIGN_OR_RETURN(const int tokens, counter_.Count("", CountedText(item)));
    item.tokens = tokens + around.message;
    item.id = NewId(protocol::ItemIdPrefix(message));
    items.push_back(std::move(item));
  }
  return items;
}

void SessionActor::AppendItems(const SessionKey& key, std::vector<api::ChatMessage> messages,
                               std::optional<int64_t> expected_version, Done<ItemList> done) {
  Open(key, [this, messages = std::move(messages), expected_version,
             done](const Result<SessionPointer>& opened) {
    if (!opened.ok()) return done(opened.status());
    const SessionPointer session = *opened;
    if (Status room = HasRoom(*session); !room.ok()) return done(room);
    Result<std::vector<Item>> items = ItemsOf(messages);
    if (!items.ok()) return done(items.status());
    int64_t turn = session->queue->Skip(static_cast<int64_t>(items->size()));
    for (Item& item : *items) item.turn = turn++;
    const int64_t after = session->turns.empty() ? 0 : session->turns.rbegin()->first;
    AddBarrier(session, after, [this, session, expected_version, items = *items, done]() mutable {
      for (Item& item : items) item.place = session->next_place++;
      ask_.Write(
          [key = session->key, expected_version, items, now_s = unix_s_()](store::Database& rows) {
            return AddItems(rows, key, expected_version, items, now_s);
          },
          [this, session, done](Result<ItemList> added) {
            if (added.ok()) {
              const responses::CriticalSection section(&hold_times_);
              session->version = added->version;
              session->used_s = unix_s_();
              session->items.insert(session->items.end(), added->items.begin(), added->items.end());
            }
            done(std::move(added));
            BarrierEnded(session);
          });
    });
  });
}

void SessionActor::DeleteItem(const SessionKey& key, const std::string& item_id,
                              std::optional<int64_t> expected_version, Done<Conversation> done) {
  Open(key, [this, item_id, expected_version, done](const Result<SessionPointer>& opened) {
    if (!opened.ok()) return done(opened.status());
    const SessionPointer session = *opened;
    if (Status room = HasRoom(*session); !room.ok()) return done(room);
    const int64_t after = session->turns.empty() ? 0 : session->turns.rbegin()->first;
    AddBarrier(session, after, [this, session, item_id, expected_version, done] {
      ask_.Write(
          [key = session->key, item_id, expected_version,
           now_s = unix_s_()](store::Database& rows) -> Result<Conversation> {
            RETURN_IF_ERROR(RemoveItem(rows, key, expected_version, item_id, now_s));
            return LoadConversation(rows, key);
          },
          [this, session, item_id, done](Result<Conversation> conversation) {
            if (conversation.ok()) {
              const responses::CriticalSection section(&hold_times_);
              session->version = conversation->version;
              session->used_s = unix_s_();
              std::erase_if(session->items, [&](const Item& each) { return each.id == item_id; });
            }
            done(std::move(conversation));
            BarrierEnded(session);
          });
    });
  });
}

void SessionActor::CreateConversation(const std::string& tenant, const std::string& owner,
                                      const std::string& metadata,
                                      const std::vector<api::ChatMessage>& messages,
                                      Done<Conversation> done) {
  Result<std::vector<Item>> items = messages.empty() ? std::vector<Item>() : ItemsOf(messages);
  if (!items.ok()) return done(items.status());
  ask_.Write(
      [key = SessionKey{tenant, kConversations, NewId("conv_")}, owner, metadata,
       items = *std::move(items), now_s = unix_s_(),
       limits = options_.dialogs](store::Database& rows) {
        return CreateConversationRow(rows, key, owner, metadata, items, now_s, limits);
      },
      std::move(done));
}

void SessionActor::SetMetadata(const SessionKey& key, const std::string& metadata,
                               std::optional<int64_t> expected_version, Done<Conversation> done) {
  Open(key, [this, metadata, expected_version, done](const Result<SessionPointer>& opened) {
    if (!opened.ok()) return done(opened.status());
    const SessionPointer session = *opened;
    ++session->pending;
    ++session->new_metadata;
    ask_.Write(
        [key = session->key, metadata, expected_version, now_s = unix_s_()](store::Database& rows) {
          return ChangeMetadata(rows, key, expected_version, metadata, now_s);
        },
        [this, session, done](Result<Conversation> changed) {
          if (changed.ok()) {
            const responses::CriticalSection section(&hold_times_);
            ++session->version;  // what else was on its way to the disk raises it itself
            session->used_s = unix_s_();
          }
          --session->new_metadata;
          done(std::move(changed));
          Leave(session);
        });
  });
}

void SessionActor::Import(const Subject& subject, const std::string& line, Callback done) {
  ask_.Write(
      [subject, line, now_s = unix_s_(),
       limits = ImportLimits{options_.dialogs, options_.projects_per_tenant}](
          store::Database& rows) -> Result<Imported> {
        Result<Imported> imported = ImportLine(rows, subject, line, now_s, limits);
        if (imported.status().reason() == "store_conflict")
          return InvalidArgument("invalid_value", "there is such a dialog or project already");
        return imported;
      },
      [this, done](const Result<Imported>& imported) {
        if (imported.ok()) Refresh(*imported);
        done(imported.status());
      });
}

// Drops the outdated copy in memory.
void SessionActor::Refresh(const Imported& imported) {
  const SessionKey& key = imported.key;
  if (key.session.empty()) return SetProfiles(key.tenant, key.project, imported.profile);
  const SessionPointer resident = residency_.Find(key);
  if (resident != nullptr && resident->idle()) residency_.Remove(resident);
}

}  // namespace tutti::sessions
