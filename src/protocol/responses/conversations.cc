#include "protocol/responses/conversations.h"

#include "api/names.h"
#include "base/ascii.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"
#include "protocol/schema/query_parameters.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

Result<Metadata> MetadataOf(const CheckedObject& object) {
  const Json* value = object.Find("metadata");
  return value == nullptr ? Metadata() : ReadMetadata(*value, "metadata");
}

void WriteParent(const std::string& id, int64_t version, JsonWriter* json) {
  if (id.empty()) return;
  json->Key("parent").BeginObject().Member("id", id).Member("version", version).EndObject();
}

void WriteListed(const ListedConversation& conversation, JsonWriter* json) {
  json->BeginObject().Member("id", conversation.id).Member("object", "conversation");
  json->Member("created_at", conversation.created_s).Key("metadata");
  WriteMetadata(conversation.metadata, json);
  json->Member("version", conversation.version).Member("last_used_at", conversation.used_s);
  json->Member("item_count", conversation.items);
  WriteParent(conversation.parent, conversation.parent_version, json);
  json->EndObject();
}

void WriteItem(const ItemView& item, JsonWriter* json) {
  const std::string_view status = item.incomplete ? "incomplete" : "completed";
  json->BeginObject().Member("id", item.id);
  if (item.call.has_value()) {
    json->Member("type", "function_call").Member("status", status);
    json->Member("arguments", item.call->arguments).Member("call_id", item.call->id);
    json->Member("name", item.call->name).EndObject();
    return;
  }
  if (item.role == api::Role::kTool) {
    json->Member("type", "function_call_output").Member("status", status);
    json->Member("call_id", item.tool_call_id).Member("output", item.text).EndObject();
    return;
  }
  if (!item.reasoning.empty()) {
    json->Member("type", "reasoning").Member("status", status);
    json->Key("summary").BeginArray().EndArray().Key("content").BeginArray();
    json->BeginObject().Member("type", "reasoning_text").Member("text", item.reasoning);
    json->EndObject().EndArray().EndObject();
    return;
  }
  json->Member("type", "message").Member("role", api::RoleName(item.role));
  json->Member("status", status);
  json->Key("content").BeginArray().BeginObject();
  const bool said = item.role == api::Role::kAssistant;
  json->Member("type", said ? "output_text" : "input_text").Member("text", item.text);
  if (said) {
    json->Key("annotations").BeginArray().EndArray();
    json->Key("logprobs").BeginArray().EndArray();
  }
  json->EndObject().EndArray().EndObject();
}

}  // namespace

Result<ConversationCreate> ParseConversationCreate(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kConversation, body, "", options.strict, &ignored));
  ConversationCreate create;
  ASSIGN_OR_RETURN(create.metadata, MetadataOf(object));
  if (const Json* items = object.Find("items"); items != nullptr) {
    ASSIGN_OR_RETURN(create.items,
                     ReadInputItems(*items, "items", kMaxItemsAtOnce, options.strict, &ignored));
  }
  create.ignored = ignored.names();
  return create;
}

Result<ConversationUpdate> ParseConversationUpdate(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kConversationUpdate, body, "", options.strict, &ignored));
  ConversationUpdate update;
  ASSIGN_OR_RETURN(update.metadata, MetadataOf(object));
  update.ignored = ignored.names();
  return update;
}

Result<ItemsCreate> ParseItemsCreate(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kConversationItems, body, "", options.strict, &ignored));
  ItemsCreate create;
  ASSIGN_OR_RETURN(create.items, ReadInputItems(*object.Find("items"), "items", kMaxItemsAtOnce,
                                                options.strict, &ignored));
  create.ignored = ignored.names();
  return create;
}

Result<ConversationFork> ParseConversationFork(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kConversationFork, body, "", options.strict, &ignored));
  ConversationFork fork;
  if (object.Has("metadata")) {
    ASSIGN_OR_RETURN(fork.metadata, MetadataOf(object));
  }
  fork.version = object.Int("version");
  fork.before_item = object.Text("before_item").value_or("");
  if (fork.version.has_value() && !fork.before_item.empty())
    return BadValue("before_item", "a fork begins at a version or before an item, not both");
  fork.ignored = ignored.names();
  return fork;
}

Result<std::optional<int64_t>> ParseIfMatch(std::string_view field) {
  field = Trimmed(field);
  if (field == "*") return std::optional<int64_t>();
  if (field.size() >= 4 && field.starts_with("\"v") && field.back() == '"') {
    const auto version = ReadWholeNumber(field.substr(2, field.size() - 3));
    if (version.has_value()) return version;
  }
  return BadValue("If-Match",
                  "If-Match must be the entity tag of a conversation, as \"v17\", or *");
}

std::string EntityTag(int64_t version) { return "\"v" + std::to_string(version) + "\""; }

std::string ConversationJson(const ConversationView& conversation) {
  JsonWriter json;
  json.BeginObject().Member("id", conversation.id).Member("object", "conversation");
  json.Member("created_at", conversation.created_s).Key("metadata");
  WriteMetadata(conversation.metadata, &json);
  json.Member("version", conversation.version);
  WriteParent(conversation.parent, conversation.parent_version, &json);
  json.EndObject();
  return json.Take();
}

std::string ConversationListJson(std::span<const ListedConversation> conversations, bool has_more) {
  return PageJson(conversations, has_more, WriteListed);
}

std::string ItemJson(const ItemView& item) {
  JsonWriter json;
  WriteItem(item, &json);
  return json.Take();
}

std::string ItemListJson(std::span<const ItemView> items, bool has_more) {
  return PageJson(items, has_more, WriteItem);
}

std::string DeletedJson(std::string_view id, std::string_view kind) {
  JsonWriter json;
  json.BeginObject().Member("id", id).Member("object", std::string(kind) + ".deleted");
  json.Member("deleted", true).EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
