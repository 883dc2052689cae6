// Conversations of the Conversations API, and the items of a dialog: lists, single items, changes.
// A conversation is a dialog of project "", which no client of the sessions can name, so that both
// have the same history, turns, forks and limits. All functions run on the store's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "services/sessions/dialog_quota.h"
#include "services/sessions/history.h"
#include "store/database.h"

namespace tutti::sessions {

struct ItemPage {
  int64_t limit = 20;      // 1..100
  bool ascending = false;  // oldest first
  std::string after;       // id of the item before the first; empty: from the beginning
};

struct ItemList {
  int64_t version = 0;  // of the dialog
  std::vector<Item> items;
  bool has_more = false;
};

// Errors: not_found (the dialog, or the item that the page begins behind).
Result<ItemList> ListItems(store::Database& database, const SessionKey& key, const ItemPage& page);
Result<Item> LoadItem(store::Database& database, const SessionKey& key, const std::string& item_id);
// Appends items, gives turn numbers, places and ids to those that have none, and increases the
// version. Errors: not_found, version_mismatch, request_too_large.
Result<ItemList> AddItems(store::Database& database, const SessionKey& key,
                          std::optional<int64_t> expected_version, std::vector<Item> items,
                          int64_t now_s);
// Deletes an item. Errors: invalid_value (a fork shares the item with its original), not_found,
// version_mismatch.
Status RemoveItem(store::Database& database, const SessionKey& key,
                  std::optional<int64_t> expected_version, const std::string& item_id,
                  int64_t now_s);

inline constexpr const char* kConversations = "";  // the project

// The conversation that a fork was made from; `id` is empty if there is none, or if it was cleared
// or deleted since.
struct ForkOrigin {
  std::string id;
  int64_t version = 0;
};

struct Conversation {
  std::string id;  // the session's name
  int64_t created_s = 0;
  int64_t version = 0;
  std::string metadata;  // a JSON object, unchanged
  std::string system_prompt;
  std::vector<Item> items;  // of a new one: with their ids
  ForkOrigin origin = {};
};

// Index of the conversations of a tenant in the order of their last use; behind kOwnerTables.
extern const store::Migration kConversationIndex;

// A page of a tenant's conversations, most recently used first. At most one of `after` and `before`
// is set. A conversation that is used while a client reads pages moves to the beginning.
struct ConversationPage {
  int64_t limit = 20;                   // 1..100
  bool ascending = false;               // least recently used first
  std::string after = {}, before = {};  // id of the conversation before the page, or behind it
  std::string owner = {};               // only this owner's; empty: those of all owners
};

struct ListedConversation {
  std::string id;
  int64_t created_s = 0, used_s = 0;
  int64_t version = 0;
  std::string metadata;  // a JSON object, unchanged; "": {}
  int64_t items = 0;     // of a fork at most kMaxCountedItems
  ForkOrigin origin = {};
};
inline constexpr int64_t kMaxCountedItems = 4000;

struct ConversationList {
  std::vector<ListedConversation> conversations;  // in the order of the page
  bool has_more = false;                          // in the direction of the page
};
// Errors: not_found (`after` or `before`).
Result<ConversationList> ListConversations(store::Database& database, const std::string& tenant,
                                           const ConversationPage& page);

Result<Conversation> CreateConversationRow(store::Database& database, const SessionKey& key,
                                           const std::string& owner, const std::string& metadata,
                                           std::vector<Item> items, int64_t now_s,
                                           const DialogQuota& limits);
// Loads a conversation without its items. Errors: not_found.
Result<Conversation> LoadConversation(store::Database& database, const SessionKey& key);
// Replaces the metadata and increases the dialog's version; the items do not change. Errors:
// not_found, version_mismatch.
Result<Conversation> ChangeMetadata(store::Database& database, const SessionKey& key,
                                    std::optional<int64_t> expected_version,
                                    const std::string& metadata, int64_t now_s);
Status SetMetadataRow(store::Database& database, const SessionKey& key, const std::string& metadata,
                      int64_t now_s);

}  // namespace tutti::sessions
