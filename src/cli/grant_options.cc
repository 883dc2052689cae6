#include "cli/grant_options.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "app/control.h"
#include "base/log.h"
#include "cli/time_span.h"

namespace tutti::cli {
namespace {

void WriteList(std::string_view name, const std::vector<std::string>& texts,
               protocol::JsonWriter* json) {
  json->Key(name).BeginArray();
  for (const std::string& text : texts) json->String(text);
  json->EndArray();
}

// The list of that name within "scopes".
std::string ScopeText(const protocol::JsonObject& owner, std::string_view name, const char* none) {
  std::string text;
  const protocol::Json* const scopes = owner.if_contains("scopes");
  if (scopes == nullptr || !scopes->is_object()) return none;
  const protocol::Json* const list = scopes->get_object().if_contains(name);
  if (list == nullptr || !list->is_array()) return none;
  for (const protocol::Json& each : list->get_array()) {
    if (each.is_string())
      text += (text.empty() ? "" : ",") + LogEscape(std::string_view(each.get_string()));
  }
  return text.empty() ? none : text;
}

}  // namespace

void GrantOptions::AddTo(CLI::App& command) {
  command.add_option("--tenant", tenant_, "owning tenant; tenants share nothing [default]")
      ->type_name("NAME");
  command
      .add_option(
          "--routes", routes_,
          "permitted routes: generate,embed,tokenize,models,metrics,admin (default: all but admin)")
      ->delimiter(',')
      ->allow_extra_args(false)  // a name may follow
      ->type_name("CLASS,...");
  command.add_option("--models", models_, "names of the permitted models (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  static constexpr std::array<const char*, api::kCallerLimits.size()> kHelp = {
      "requests per minute", "uncached prompt and output tokens per minute", "concurrent requests",
      "queued prompt tokens", "tokens per day (UTC)"};
  for (size_t i = 0; i < kHelp.size(); ++i) {
    const auto& [name, member] = api::kCallerLimits[i];
    std::string flag = "--" + std::string(name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    command.add_option(flag, limits_.*member, kHelp[i])->type_name("N");
  }
}

void GrantOptions::Write(protocol::JsonWriter* json) const {
  if (!tenant_.empty()) json->Member("tenant", tenant_);
  json->Key("scopes").BeginObject();
  WriteList("routes", routes_, json);
  WriteList("models", models_, json);
  json->EndObject();
  json->Key("limits").BeginObject();
  for (const auto& [name, member] : api::kCallerLimits) {
    if ((limits_.*member).has_value()) json->Member(name, *(limits_.*member));
  }
  json->EndObject();
}

void GrantOptions::WarnOfUnknownModels(const StoreRequest& server) const {
  if (models_.empty()) return;
  const Result<protocol::JsonDocument> answer = server.Ask(std::string(app::kModelsRequest));
  if (!answer.ok()) return;
  const protocol::Json* const served = answer->root().get_object().if_contains("models");
  if (served == nullptr || !served->is_array() || served->get_array().empty()) return;
  for (const std::string& model : models_) {
    const auto& all = served->get_array();
    if (std::find(all.begin(), all.end(), protocol::Json(model)) != all.end()) continue;
    std::fprintf(stderr, "tutti: warning: the server serves no text or vectors of a model %s now\n",
                 LogEscape(model.substr(0, 128)).c_str());
  }
}

std::string RoutesText(const protocol::JsonObject& owner) {
  return ScopeText(owner, "routes", "all but admin");
}

std::string ModelsText(const protocol::JsonObject& owner) {
  return ScopeText(owner, "models", "all");
}

std::string LimitsText(const protocol::JsonObject& owner) {
  std::string text;
  const protocol::Json* const limits = owner.if_contains("limits");
  if (limits == nullptr || !limits->is_object()) return "none";
  for (const auto& [name, value] : limits->get_object())
    text += (text.empty() ? "" : ",") + std::string(name) + "=" + protocol::PrintJson(value);
  return text.empty() ? "none" : text;
}

std::string MemberDate(const protocol::JsonObject& object, std::string_view name) {
  const protocol::Json* const value = object.if_contains(name);
  return value != nullptr && value->is_int64() ? DateText(value->get_int64()) : "-";
}

}  // namespace tutti::cli
