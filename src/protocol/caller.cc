#include "protocol/caller.h"

#include "protocol/json/json_writer.h"

namespace tutti::protocol {
namespace {

template <typename Texts>
void WriteTexts(std::string_view name, const Texts& texts, JsonWriter* json) {
  json->Key(name).BeginArray();
  for (const auto& text : texts) json->String(text);
  json->EndArray();
}

void WriteLimits(const std::vector<api::CallerLimitState>& limits, JsonWriter* json) {
  json->Key("limits").BeginArray();
  for (const api::CallerLimitState& each : limits) {
    json->BeginObject().Member("limit", each.limit).Member("of", each.of);
    json->Member("max", each.state.limit).Member("remaining", each.state.remaining);
    json->Member("reset_s", ToSeconds(each.state.reset)).EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string CallerJson(const CallerView& caller) {
  JsonWriter json;
  json.BeginObject().Member("object", "caller").Member("keys", caller.keys);
  json.Member("kind", caller.kind).Member("id", caller.id).Member("name", caller.name);
  json.Member("tenant", caller.tenant).MemberOrNull("expires_at", caller.expires_s);
  json.Key("scopes").BeginObject();
  WriteTexts("routes", caller.routes, &json);
  if (caller.model_scope.empty()) {
    json.Member("models", nullptr);
  } else {
    WriteTexts("models", caller.model_scope, &json);
  }
  json.EndObject().Member("admin", caller.admin);
  WriteTexts("models", caller.models, &json);
  WriteLimits(caller.limits, &json);
  json.Key("server").BeginObject().Member("version", caller.version);
  json.Key("services").BeginObject();
  for (const auto& [name, offered] : caller.services) json.Member(name, offered);
  json.EndObject().Key("limits").BeginObject().Member("body_bytes", caller.body_bytes);
  json.Member("upload_bytes", caller.upload_bytes).Member("timeout_s", caller.max_timeout_s);
  json.EndObject().EndObject().EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
