#include "cli/store_commands.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "app/control.h"
#include "app/store.h"
#include "base/ascii.h"
#include "base/log.h"
#include "client/control_client.h"
#include "protocol/control.h"
#include "services/auth/accounts.h"
#include "services/auth/authenticator.h"
#include "store/store.h"

namespace tutti::cli {
namespace {

constexpr std::chrono::seconds kControlPatience{30};

Result<std::string> AnswerHere(store::Store& store, const std::string& request) {
  ASSIGN_OR_RETURN(const std::unique_ptr<auth::Accounts> accounts, auth::Accounts::Open(&store));
  auth::Authenticator::Options options;
  options.pool = {.threads = 1, .nice = 0};  // a user waits, and this process serves no requests
  ASSIGN_OR_RETURN(const std::unique_ptr<auth::Authenticator> authority,
                   auth::Authenticator::Create(accounts.get(), options));
  return protocol::ControlLine(app::AnswerControl(store, *authority, request));
}

// The store's lock decides who answers: this process if it gets the lock, else the server that
// holds it. There is no moment in which both or neither could answer.
Result<std::string> AnswerOf(const std::string& folder, const std::string& request) {
  const auto store = store::Store::Open({.folder = folder}, app::StoreTables());
  if (store.ok()) return AnswerHere(**store, request);
  if (store.status().reason() != "store_locked") return store.status();
  Result<std::string> answer = client::AskControl(folder, request, kControlPatience);
  if (answer.ok()) return answer;
  return Status(
      StatusCode::kFailedPrecondition, "store_locked",
      store.status().message() + ", which does not answer (" + answer.status().message() + ")");
}

// Looks for the store's file, because the folder alone may belong to something else.
Status CheckThere(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(store::FileIn(folder), error)) return OkStatus();
  if (error) return Unavailable("store_failed", "the store in " + folder + ": " + error.message());
  return NotFound("not_found",
                  "there is no store in " + folder + "; give the --store of the server");
}

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

constexpr int64_t kMaxSpanS = int64_t{36500} * 86400;
constexpr std::array<std::pair<char, int64_t>, 5> kUnits = {
    {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}}};

}  // namespace

void StoreRequest::AddTo(CLI::App& command) {
  command.add_flag("--json", json_, "the answer as one JSON object");
  options_.AddOnly(command, {"store"});
}

Result<protocol::JsonDocument> StoreRequest::Ask(const std::string& request, Absent absent) const {
  ASSIGN_OR_RETURN(const app::Settings settings, options_.Resolve());
  ASSIGN_OR_RETURN(const std::string folder, app::StorePlace(settings));
  if (folder.empty())
    return InvalidArgument("invalid_value",
                           "a store in memory ends with its process: there is nothing to change");
  if (absent == Absent::kMake) {
    RETURN_IF_ERROR(app::StoreFolder(settings).status());
  } else {
    RETURN_IF_ERROR(CheckThere(folder));
  }
  ASSIGN_OR_RETURN(const std::string answer, AnswerOf(folder, request));
  ASSIGN_OR_RETURN(protocol::JsonDocument document, protocol::ParseJson(answer));
  if (!document.root().is_object()) return Internal("the answer is no object");
  const protocol::JsonObject& object = document.root().get_object();
  if (MemberFlag(object, "ok")) {
    const protocol::Json* const written = object.if_contains("written");
    if (written != nullptr && written->is_bool() && !written->get_bool()) {
      std::fputs(
          "tutti: warning: it is in force, but not written: the disk takes nothing. The server "
          "writes it as\nsoon as there is room; a restart before would undo it\n",
          stderr);
    }
    return document;
  }
  return Status(StatusCode::kUnknown, protocol::MemberText(object, "code"),
                protocol::MemberText(object, "message"));
}

bool StoreRequest::PrintedJson(const protocol::JsonDocument& answer) const {
  if (json_) std::printf("%s\n", protocol::PrintJson(answer.root()).c_str());
  return json_;
}

void GrantOptions::AddTo(CLI::App& command) {
  command.add_option("--tenant", tenant_, "owning tenant; tenants share nothing [default]")
      ->type_name("NAME");
  AddChangesTo(command);
}

void GrantOptions::AddChangesTo(CLI::App& command) {
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
  WriteChanges(json);
}

void GrantOptions::WriteChanges(protocol::JsonWriter* json) const {
  json->Key("scopes").BeginObject();
  if (!routes_.empty()) WriteList("routes", routes_, json);
  if (!models_.empty()) WriteList("models", models_, json);
  json->EndObject();
  WriteLimits(json);
}

void GrantOptions::WriteLimits(protocol::JsonWriter* json) const {
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

bool MemberFlag(const protocol::JsonObject& object, std::string_view name) {
  const protocol::Json* const value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::string MemberDate(const protocol::JsonObject& object, std::string_view name) {
  const protocol::Json* const value = object.if_contains(name);
  return value != nullptr && value->is_int64() ? DateText(value->get_int64()) : "-";
}

std::optional<int64_t> ParseSpan(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  const std::optional<int64_t> number = ParseNumber<int64_t>(text.substr(0, text.size() - 1));
  if (!number.has_value() || *number < 1) return std::nullopt;
  for (const auto& [letter, seconds] : kUnits) {
    if (letter == text.back() && *number <= kMaxSpanS / seconds) return *number * seconds;
  }
  return std::nullopt;
}

std::string SpanFault(const std::string& text) {
  return ParseSpan(text).has_value() ? "" : "needs a span of time such as 12h or 30d";
}

std::string DateText(int64_t time_s) {
  const auto time = static_cast<std::time_t>(time_s);
  std::tm parts{};
  std::array<char, 32> text{};
  if (gmtime_r(&time, &parts) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts)};
}

}  // namespace tutti::cli
