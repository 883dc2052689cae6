// SessionActor: items that enter or leave a dialog by other ways than a turn.
#include <algorithm>
#include <utility>

#include "base/random_id.h"
#include "protocol/responses/input_items.h"
#include "services/sessions/conversations.h"
#include "services/sessions/session_actor.h"

namespace tutti::sessions {

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
