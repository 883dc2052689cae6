#include "services/sessions/conversations.h"

#include <utility>

#include "services/sessions/items.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {

using store::Database;

Result<Conversation> CreateConversationRow(Database& database, const SessionKey& key,
                                           const std::string& owner, const std::string& metadata,
                                           std::vector<Item> items, int64_t now_s,
                                           const DialogQuota& limits) {
  RETURN_IF_ERROR(EnsureDialog(database, key, owner, now_s, limits).status());
  RETURN_IF_ERROR(SetMetadataRow(database, key, metadata, now_s));
  ItemList added;
  if (!items.empty()) {
    ASSIGN_OR_RETURN(added, AddItems(database, key, std::nullopt, std::move(items), now_s));
  }
  ASSIGN_OR_RETURN(Conversation conversation, LoadConversation(database, key));
  conversation.items = std::move(added.items);
  return conversation;
}

Result<Conversation> LoadConversation(Database& database, const SessionKey& key) {
  ASSIGN_OR_RETURN(std::optional<Dialog> dialog, LoadDialog(database, key, INT64_MAX));
  if (!dialog.has_value()) return NotFound("not_found", "there is no such conversation");
  return Conversation{.id = key.session,
                      .created_s = dialog->created_s,
                      .version = dialog->version,
                      .metadata = dialog->metadata.empty() ? "{}" : std::move(dialog->metadata),
                      .system_prompt = std::move(dialog->system_prompt),
                      .items = {}};
}

Result<Conversation> ChangeMetadata(Database& database, const SessionKey& key,
                                    std::optional<int64_t> expected_version,
                                    const std::string& metadata, int64_t now_s) {
  ASSIGN_OR_RETURN(const std::optional<Dialog> dialog, LoadDialog(database, key, INT64_MAX));
  if (!dialog.has_value()) return NotFound("not_found", "there is no such conversation");
  RETURN_IF_ERROR(CheckVersion(dialog->version, expected_version));
  RETURN_IF_ERROR(SetMetadataRow(database, key, metadata, now_s));
  RETURN_IF_ERROR(Run(database, "UPDATE dialog SET version=version+1 WHERE id=?1", dialog->id));
  RETURN_IF_ERROR(NoteVersion(database, dialog->id, /*changed_from=*/INT64_MAX));
  return LoadConversation(database, key);
}

Status SetMetadataRow(Database& database, const SessionKey& key, const std::string& metadata,
                      int64_t now_s) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE dialog SET metadata=?4, used_s=?5 WHERE tenant=?1 AND project=?2 "
                      "AND session=?3",
                      key.tenant, key.project, key.session, metadata, now_s));
  if (database.changes() > 0) return OkStatus();
  return NotFound("not_found", "there is no such conversation");
}

}  // namespace tutti::sessions
