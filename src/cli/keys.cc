// `tutti keys`: API keys of a store, whether a server runs on it or not.
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/grant_options.h"
#include "cli/store_request.h"
#include "cli/text_table.h"
#include "cli/time_span.h"
#include "protocol/control.h"
#include "protocol/json/json_writer.h"

namespace tutti::cli {
namespace {

using protocol::JsonObject;
using protocol::JsonWriter;

// Validator of options whose value is a duration.
std::string SpanFault(const std::string& text) {
  return ParseSpan(text).has_value() ? "" : "needs a span of time such as 12h or 30d";
}

class KeysCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("keys", "API keys: make, list, rotate and revoke them");
    app_->require_subcommand(1);
    app_->footer(
        "From the first key on a server answers nobody without one. Each change takes effect in a "
        "running\n"
        "server at once. Examples:\n"
        "  tutti keys create ci --expires 90d\n"
        "  tutti keys create search --routes embed,models --tenant acme\n"
        "  tutti keys list\n"
        "  tutti keys rotate ci --grace 7d\n"
        "  tutti keys revoke ci");
    DeclareCreate();
    DeclareList();
    DeclareRotate();
    DeclareRevoke();
  }

  int Run() override {
    const Status status = run_();
    return status.ok() ? kExitOk : Fail(status);
  }

 private:
  CLI::App* Add(const char* name, const char* help, StoreRequest* request,
                Status (KeysCommand::*run)()) {
    CLI::App* const verb = app_->add_subcommand(name, help);
    request->AddTo(*verb);
    verb->callback([this, run] { run_ = [this, run] { return (this->*run)(); }; });
    return verb;
  }

  void DeclareCreate() {
    CLI::App* const verb =
        Add("create", "Make a key and print it, this once", &create_, &KeysCommand::Create);
    verb->add_option("NAME", name_, "what it is called: letters, digits and _ . -")->required();
    verb->add_option("--expires", span_, "how long it is good for: 12h, 30d (default: for ever)")
        ->check(&SpanFault)
        ->type_name("SPAN");
    grant_.AddTo(*verb);
    verb->footer(
        "The key stands alone on standard output; the store keeps only its hash.\n"
        "Example:\n  KEY=$(tutti keys create ci --routes generate,models)");
  }
  void DeclareList() {
    Add("list", "All keys, with those that ended lately", &list_, &KeysCommand::List);
  }
  void DeclareRotate() {
    CLI::App* const verb = Add("rotate", "Make a second key of a name; the first ends later",
                               &rotate_, &KeysCommand::Rotate);
    verb->add_option("NAME", name_, "the name of an active key")->required();
    verb->add_option("--grace", span_, "how long the first is still good for [7d]")
        ->check(&SpanFault)
        ->type_name("SPAN");
    verb->footer("Example:\n  tutti keys rotate ci --grace 24h");
  }
  void DeclareRevoke() {
    CLI::App* const verb =
        Add("revoke", "End a key at once, with what runs for it", &revoke_, &KeysCommand::Revoke);
    verb->add_option("NAME|ID", name_, "all active keys of a name, or the one of an id")
        ->required();
    verb->footer("Example:\n  tutti keys revoke ci");
  }

  Status Create() {
    std::string request;
    JsonWriter json(&request);
    json.BeginObject().Member("op", "keys.create").Member("name", name_);
    grant_.Write(&json);
    if (!span_.empty()) json.Member("expires_in_s", ParseSpan(span_).value_or(0));
    json.EndObject();
    RETURN_IF_ERROR(PrintIssued(create_, request, StoreRequest::Absent::kMake));
    grant_.WarnOfUnknownModels(create_);
    return OkStatus();
  }

  Status Rotate() {
    std::string request;
    JsonWriter json(&request);
    json.BeginObject().Member("op", "keys.rotate").Member("name", name_);
    if (!span_.empty()) json.Member("grace_s", ParseSpan(span_).value_or(0));
    json.EndObject();
    return PrintIssued(rotate_, request, StoreRequest::Absent::kRefuse);
  }

  Status Revoke() {
    std::string request;
    JsonWriter(&request).BeginObject().Member("op", "keys.revoke").Member("key", name_).EndObject();
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, revoke_.Ask(request));
    if (revoke_.json()) return PrintAll(answer);
    const protocol::Json* const ids = answer.root().get_object().if_contains("revoked");
    if (ids == nullptr || !ids->is_array()) return Internal("the answer names no key");
    for (const protocol::Json& id : ids->get_array()) {
      if (id.is_string()) std::printf("revoked %s\n", id.get_string().c_str());
    }
    return OkStatus();
  }

  Status List() {
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, list_.Ask(R"({"op":"keys.list"})"));
    if (list_.json()) return PrintAll(answer);
    const protocol::Json* const keys = answer.root().get_object().if_contains("keys");
    if (keys == nullptr || !keys->is_array()) return Internal("the answer has no keys");
    std::vector<std::vector<std::string>> rows = {{"NAME", "ID", "STATE", "TENANT", "ROUTES",
                                                   "MODELS", "LIMITS", "CREATED", "EXPIRES",
                                                   "USED"}};
    for (const protocol::Json& each : keys->get_array()) {
      if (!each.is_object()) continue;
      const JsonObject& key = each.get_object();
      rows.push_back({protocol::MemberText(key, "name"), protocol::MemberText(key, "id"),
                      protocol::MemberText(key, "state"), protocol::MemberText(key, "tenant"),
                      RoutesText(key), ModelsText(key), LimitsText(key),
                      MemberDate(key, "created_s"), MemberDate(key, "expires_s"),
                      MemberDate(key, "used_s")});
    }
    std::fputs(TextTable(rows).c_str(), stdout);
    return OkStatus();
  }

  static Status PrintAll(const protocol::JsonDocument& answer) {
    std::printf("%s\n", protocol::PrintJson(answer.root()).c_str());
    return OkStatus();
  }

  // The key alone goes to standard output, so that a script gets nothing else.
  static Status PrintIssued(const StoreRequest& verb, const std::string& request,
                            StoreRequest::Absent absent) {
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, verb.Ask(request, absent));
    if (verb.json()) return PrintAll(answer);
    const JsonObject& object = answer.root().get_object();
    const protocol::Json* const key = object.if_contains("key");
    if (key == nullptr || !key->is_object()) return Internal("the answer has no key");
    const JsonObject& record = key->get_object();
    std::printf("%s\n", protocol::MemberText(object, "secret").c_str());
    std::fprintf(stderr,
                 "Key %s (%s) of tenant %s: routes %s; models %s; limits %s; expires %s.\n"
                 "It is shown this once. Clients send it as \"Authorization: Bearer <key>\".\n",
                 protocol::MemberText(record, "name").c_str(),
                 protocol::MemberText(record, "id").c_str(),
                 protocol::MemberText(record, "tenant").c_str(), RoutesText(record).c_str(),
                 ModelsText(record).c_str(), LimitsText(record).c_str(),
                 MemberDate(record, "expires_s").c_str());
    return OkStatus();
  }

  StoreRequest create_, list_, rotate_, revoke_;
  GrantOptions grant_;
  std::string name_, span_;
  std::function<Status()> run_;
};

}  // namespace

std::unique_ptr<Command> MakeKeysCommand() { return std::make_unique<KeysCommand>(); }

}  // namespace tutti::cli
