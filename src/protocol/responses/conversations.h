// JSON of the Conversations API, inbound and outbound: OpenAI's API with the extensions `version`
// and `fork`. Pure functions.
//
// The version counts the changes of a conversation; its entity tag is "v17", including the quotes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/metadata.h"
#include "protocol/responses/input_items.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// --- in ---

// POST /v1/conversations
struct ConversationCreate {
  Metadata metadata;
  std::vector<InputItem> items;  // at most 20
  std::vector<std::string> ignored;
};
Result<ConversationCreate> ParseConversationCreate(const Json& body, const ParseOptions& options);

// POST /v1/conversations/{id}: all of the metadata is replaced.
struct ConversationUpdate {
  Metadata metadata;
  std::vector<std::string> ignored;
};
Result<ConversationUpdate> ParseConversationUpdate(const Json& body, const ParseOptions& options);

// POST /v1/conversations/{id}/items
struct ItemsCreate {
  std::vector<InputItem> items;  // 1 to 20
  std::vector<std::string> ignored;
};
Result<ItemsCreate> ParseItemsCreate(const Json& body, const ParseOptions& options);

// POST /v1/conversations/{id}/fork, an extension. An empty body counts as {}.
struct ConversationFork {
  std::optional<Metadata> metadata;  // absent: that of the parent
  std::optional<int64_t> version;    // the fork has the history up to it; absent: all
  std::string before_item;           // or up to the turn of this item; empty: none
  std::vector<std::string> ignored;
};
Result<ConversationFork> ParseConversationFork(const Json& body, const ParseOptions& options);

// If-Match: one strong entity tag of this API, or "*" (any version), which gives nullopt.
// Errors: invalid_value for any other text.
Result<std::optional<int64_t>> ParseIfMatch(std::string_view field);

// --- out ---

std::string EntityTag(int64_t version);  // with its quotes: "v17"

struct ConversationView {
  std::string id;  // "conv_..."
  int64_t created_s = 0, version = 0;
  Metadata metadata;
  std::string parent;          // of a fork, the conversation it came from; empty: none
  int64_t parent_version = 0;  // and its version there
};
std::string ConversationJson(const ConversationView& conversation);

// An element of GET /v1/conversations: a conversation with members that only the list has.
struct ListedConversation {
  std::string id;
  int64_t created_s = 0, used_s = 0, version = 0;
  Metadata metadata;
  int64_t items = 0;
  std::string parent = {};  // as of ConversationView
  int64_t parent_version = 0;
};
std::string ConversationListJson(std::span<const ListedConversation> conversations, bool has_more);

struct ItemView {
  std::string id;  // "msg_...", "fc_...", "fco_..." or "rs_..."
  api::Role role = api::Role::kUser;
  std::string text;
  bool incomplete = false;                 // an answer that was cut short
  std::optional<api::ToolCall> call = {};  // of a call
  std::string tool_call_id = {};           // of a call's output, which is `text`
  std::string reasoning = {};              // not empty: the item is reasoning, without text
};
std::string ItemJson(const ItemView& item);

// A page: the items in the order of the query, and whether more follow. Without items its ids are
// empty strings, because OpenAI's types do not allow null there.
std::string ItemListJson(std::span<const ItemView> items, bool has_more);

// {"id","object":"conversation.deleted","deleted":true}; `kind` is "conversation" or "response".
std::string DeletedJson(std::string_view id, std::string_view kind);

}  // namespace tutti::protocol
