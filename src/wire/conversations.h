// The Conversations API as pure functions: bodies and versions in; conversations,
// items and lists of them out. In the shapes of OpenAI, with `version` and `fork` of our own.
//
// The version counts what was committed to a conversation; as an entity tag it is "v17" with its
// quotes.
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
#include "wire/input_items.h"
#include "wire/json.h"
#include "wire/metadata.h"
#include "wire/request_placement.h"

namespace tutti::wire {

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

// POST /v1/conversations/{id}/fork, ours. An empty body is that of {}.
struct ConversationFork {
  std::optional<Metadata> metadata;  // absent: that of the parent
  std::optional<int64_t> version;    // up to which it has what was said; absent: now
  std::vector<std::string> ignored;
};
Result<ConversationFork> ParseConversationFork(const Json& body, const ParseOptions& options);

// If-Match: one strong tag of ours, or "*", which is any version and gives nothing.
// Errors: invalid_value for what no answer of ours can have carried.
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
// empty texts, for OpenAI's types have no null there.
std::string ItemListJson(std::span<const ItemView> items, bool has_more);

// {"id","object":"conversation.deleted","deleted":true}; `kind` is "conversation" or "response".
std::string DeletedJson(std::string_view id, std::string_view kind);

}  // namespace tutti::wire
