#include "services/responses/caller_json.h"

#include <memory>
#include <string>

namespace tutti::responses {

using protocol::Json;
using protocol::JsonWriter;

void WriteCaller(const api::Caller& caller, JsonWriter* json) {
  json->Member("tenant", caller.tenant).Member("credential", caller.credential);
  if (!caller.user.empty()) json->Member("user", caller.user);
  json->Key("models").BeginArray();
  for (const std::string& model : caller.models) json->String(model);
  json->EndArray();
  json->Key("limits").BeginObject();
  for (const auto& [name, member] : api::kCallerLimits) {
    if ((caller.limits.*member).has_value()) json->Member(name, *(caller.limits.*member));
  }
  json->EndObject();
}

api::CallerRef ReadCaller(const StoredObject& fields) {
  if (!fields.Has("credential")) return nullptr;
  const auto caller = std::make_shared<api::Caller>();
  caller->tenant = fields.Text("tenant");
  caller->credential = fields.Text("credential");
  caller->user = fields.Text("user");
  for (const Json& model : fields.List("models")) {
    if (model.is_string()) caller->models.emplace_back(protocol::TextOf(model));
  }
  if (const Json* limits = fields.Find("limits")) {
    const StoredObject set(*limits);
    for (const auto& [name, member] : api::kCallerLimits) {
      if (set.Has(name)) (*caller).limits.*member = set.Int(name);
    }
  }
  return caller;
}

std::string CallerText(const api::CallerRef& caller) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  if (caller != nullptr) WriteCaller(*caller, &json);
  json.EndObject();
  return out;
}

Result<api::CallerRef> CallerOfText(const std::string& text) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(text));
  return ReadCaller(StoredObject(document.root()));
}

}  // namespace tutti::responses
