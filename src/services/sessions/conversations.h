// A dialog as the Conversations API shows it: its id, its owner's metadata, its version. A
// conversation is a dialog of the project "" (which no client of the sessions can name), so that
// both have the same history, turns, forks and limits. Run on the store's thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "services/sessions/dialog_quota.h"
#include "services/sessions/history.h"
#include "store/database.h"

namespace tutti::sessions {

inline constexpr const char* kConversations = "";  // the project

struct Conversation {
  std::string id;  // the session's name
  int64_t created_s = 0;
  int64_t version = 0;
  std::string metadata;  // a JSON object, as it was given
  std::string system_prompt;
  std::vector<Item> items;  // of a new one: with their ids
};

Result<Conversation> CreateConversationRow(store::Database& database, const SessionKey& key,
                                           const std::string& owner, const std::string& metadata,
                                           std::vector<Item> items, int64_t now_s,
                                           const DialogQuota& limits);
// Without its items. Errors: not_found.
Result<Conversation> LoadConversation(store::Database& database, const SessionKey& key);
// The same as a change of the dialog: its version is raised, and what is said stays as it is.
// Errors: not_found, version_mismatch.
Result<Conversation> ChangeMetadata(store::Database& database, const SessionKey& key,
                                    std::optional<int64_t> expected_version,
                                    const std::string& metadata, int64_t now_s);
Status SetMetadataRow(store::Database& database, const SessionKey& key, const std::string& metadata,
                      int64_t now_s);

}  // namespace tutti::sessions
