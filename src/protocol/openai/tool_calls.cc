#include "protocol/openai/tool_calls.h"

namespace tutti::protocol {

void WriteToolCalls(std::span<const api::ToolCall> calls, JsonWriter* json) {
  json->BeginArray();
  for (const api::ToolCall& call : calls) {
    json->BeginObject().Member("id", call.id).Member("type", "function");
    json->Key("function").BeginObject().Member("name", call.name);
    json->Member("arguments", call.arguments).EndObject().EndObject();
  }
  json->EndArray();
}

void WriteToolCallDelta(const api::ToolCallDelta& delta, JsonWriter* json) {
  json->BeginArray().BeginObject().Member("index", delta.index);
  if (!delta.id.empty()) json->Member("id", delta.id).Member("type", "function");
  json->Key("function").BeginObject();
  if (!delta.name.empty()) json->Member("name", delta.name);
  json->Member("arguments", delta.arguments).EndObject().EndObject().EndArray();
}

}  // namespace tutti::protocol
