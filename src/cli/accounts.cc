// `tutti keys` and `tutti users`: API keys of a store, and its users with passwords or
// certificates, whether a server runs on it or not.
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/report.h"
#include "cli/store_commands.h"
#include "cli/terminal.h"
#include "protocol/control.h"
#include "protocol/json/json_writer.h"

namespace tutti::cli {
namespace {

using protocol::JsonObject;
using protocol::JsonWriter;

// A command of verbs, each a request to the store.
class VerbsCommand : public Command {
 public:
  int Run() override {
    const Status status = run_();
    return status.ok() ? kExitOk : Fail(status);
  }

 protected:
  CLI::App* Add(const char* name, const char* help, std::function<Status()> run) {
    CLI::App* const verb = app_->add_subcommand(name, help);
    requests_[name].AddTo(*verb);
    verb->callback([this, run = std::move(run)] { run_ = run; });
    return verb;
  }

  std::map<std::string, StoreRequest, std::less<>> requests_;  // by verb
  GrantOptions grant_;
  std::string name_;

 private:
  std::function<Status()> run_;
};

class KeysCommand final : public VerbsCommand {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("keys", "API keys: make, list, change, rotate and revoke them");
    app_->require_subcommand(1);
    app_->footer(
        "From the first key on a server answers nobody without one. Each change takes effect in a "
        "running\n"
        "server at once. Examples:\n"
        "  tutti keys create ci --expires 90d\n"
        "  tutti keys create search --routes embed,models --tenant acme\n"
        "  tutti keys list\n"
        "  tutti keys update ci --requests-per-minute 600\n"
        "  tutti keys rotate ci --grace 7d\n"
        "  tutti keys revoke ci");
    DeclareCreate();
    DeclareList();
    DeclareUpdate();
    DeclareRotate();
    DeclareRevoke();
  }

 private:
  void DeclareCreate() {
    CLI::App* const verb =
        Add("create", "Make a key and print it, this once", [this] { return Create(); });
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
    Add("list", "All keys, with those that ended lately", [this] { return List(); });
  }
  void DeclareUpdate() {
    CLI::App* const verb =
        Add("update", "Give a key other routes, models or limits", [this] { return Update(); });
    verb->add_option("NAME|ID", name_, "all active keys of a name, or the one of an id")
        ->required();
    grant_.AddChangesTo(*verb);
    verb->footer(
        "What is not given stays. The next request has the new rights; what runs keeps the old.\n"
        "Example:\n  tutti keys update ci --requests-per-minute 600");
  }
  void DeclareRotate() {
    CLI::App* const verb = Add("rotate", "Make a second key of a name; the first ends later",
                               [this] { return Rotate(); });
    verb->add_option("NAME", name_, "the name of an active key")->required();
    verb->add_option("--grace", span_, "how long the first is still good for [7d]")
        ->check(&SpanFault)
        ->type_name("SPAN");
    verb->footer("Example:\n  tutti keys rotate ci --grace 24h");
  }
  void DeclareRevoke() {
    CLI::App* const verb =
        Add("revoke", "End a key at once, with what runs for it", [this] { return Revoke(); });
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
    RETURN_IF_ERROR(PrintIssued("create", request, StoreRequest::Absent::kMake));
    grant_.WarnOfUnknownModels(requests_.at("create"));
    return OkStatus();
  }

  Status Update() {
    std::string request;
    JsonWriter json(&request);
    json.BeginObject().Member("op", "keys.update").Member("key", name_);
    grant_.WriteChanges(&json);
    json.EndObject();
    const StoreRequest& asked = requests_.at("update");
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, asked.Ask(request));
    if (asked.PrintedJson(answer)) return OkStatus();
    RETURN_IF_ERROR(PrintTable(answer));
    grant_.WarnOfUnknownModels(asked);
    return OkStatus();
  }

  Status Rotate() {
    std::string request;
    JsonWriter json(&request);
    json.BeginObject().Member("op", "keys.rotate").Member("name", name_);
    if (!span_.empty()) json.Member("grace_s", ParseSpan(span_).value_or(0));
    json.EndObject();
    return PrintIssued("rotate", request, StoreRequest::Absent::kRefuse);
  }

  Status Revoke() {
    std::string request;
    JsonWriter(&request).BeginObject().Member("op", "keys.revoke").Member("key", name_).EndObject();
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, requests_.at("revoke").Ask(request));
    if (requests_.at("revoke").PrintedJson(answer)) return OkStatus();
    const protocol::Json* const ids = answer.root().get_object().if_contains("revoked");
    if (ids == nullptr || !ids->is_array()) return Internal("the answer names no key");
    for (const protocol::Json& id : ids->get_array()) {
      if (id.is_string()) std::printf("revoked %s\n", id.get_string().c_str());
    }
    WarnWithoutKeys();
    return OkStatus();
  }

  // A server does not open again when its last key is revoked, or that would let everybody in. The
  // key is revoked already, so a list that cannot be had is no failure of the command.
  void WarnWithoutKeys() {
    const auto answer = requests_.at("revoke").Ask(R"({"op":"keys.list"})");
    if (!answer.ok()) return;
    const protocol::Json* const keys = answer->root().get_object().if_contains("keys");
    if (keys == nullptr || !keys->is_array()) return;
    for (const protocol::Json& key : keys->get_array()) {
      if (key.is_object() && protocol::MemberText(key.get_object(), "state") == "active") return;
    }
    std::fprintf(stderr,
                 "No active key is left. Requests without a key or a user are still refused; "
                 "`tutti keys create NAME` makes another.\n");
  }

  Status List() {
    const StoreRequest& asked = requests_.at("list");
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, asked.Ask(R"({"op":"keys.list"})"));
    if (asked.PrintedJson(answer)) return OkStatus();
    return PrintTable(answer);
  }

  static Status PrintTable(const protocol::JsonDocument& answer) {
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

  // The key alone goes to standard output, so that a script gets nothing else.
  Status PrintIssued(const char* verb, const std::string& request, StoreRequest::Absent absent) {
    const StoreRequest& asked = requests_.at(verb);
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, asked.Ask(request, absent));
    if (asked.PrintedJson(answer)) return OkStatus();
    const JsonObject& object = answer.root().get_object();
    const protocol::Json* const key = object.if_contains("key");
    if (key == nullptr || !key->is_object()) return Internal("the answer has no key");
    const JsonObject& record = key->get_object();
    std::printf("%s\n", protocol::MemberText(object, "secret").c_str());
    std::fprintf(stderr,
                 "Key %s (%s) of tenant %s: routes %s; models %s; limits %s; expires %s.\n"
                 "It is shown this once. Clients send it as \"Authorization: Bearer <key>\".\n"
                 "Requests without a key or a user are refused from now on.\n",
                 protocol::MemberText(record, "name").c_str(),
                 protocol::MemberText(record, "id").c_str(),
                 protocol::MemberText(record, "tenant").c_str(), RoutesText(record).c_str(),
                 ModelsText(record).c_str(), LimitsText(record).c_str(),
                 MemberDate(record, "expires_s").c_str());
    return OkStatus();
  }

  std::string span_;
};

class UsersCommand final : public VerbsCommand {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand(
        "users", "Users with passwords or certificates: make, list and change them");
    app_->require_subcommand(1);
    app_->footer(
        "A password has 12 to 1,024 bytes. It is typed, or is the line of standard input with\n"
        "--password-stdin; never an argument.\n"
        "Each change takes effect in a running server at once. Examples:\n"
        "  tutti users create ann --tenant acme\n"
        "  tutti users create sensor-7 --no-password   (who is known by a certificate)\n"
        "  tutti users passwd ann --password-stdin < secret.txt\n"
        "  tutti users list\n"
        "  tutti users disable ann");
    CLI::App* const create = Add("create", "Make a user", [this] { return Create(); });
    AddName(*create);
    AddPassword(*create);
    create->add_flag("--no-password", no_password_,
                     "without one: who is known by a client certificate alone");
    grant_.AddTo(*create);
    create->footer("Example:\n  tutti users create ann --routes generate,models");
    Add("list", "All users", [this] { return List(); });
    CLI::App* const passwd = Add("passwd", "Give a user another password", [this] {
      return WithPassword("passwd", "users.password", false);
    });
    AddName(*passwd);
    AddPassword(*passwd);
    AddPlain("enable", "Let a user in again", "users.enable");
    AddPlain("disable", "Keep a user out, and end what runs for them", "users.disable");
    AddPlain("delete", "Remove a user with their dialogs, and end what runs for them",
             "users.delete");
  }

 private:
  void AddPlain(const char* name, const char* help, const char* op) {
    AddName(*Add(name, help, [this, name, op] {
      std::string request;
      JsonWriter(&request).BeginObject().Member("op", op).Member("name", name_).EndObject();
      return ChangeAndPrint(name, request);
    }));
  }
  void AddName(CLI::App& verb) {
    verb.add_option("NAME", name_, "letters, digits and _ . -, at most 64")->required();
  }
  void AddPassword(CLI::App& verb) {
    verb.add_flag("--password-stdin", password_stdin_,
                  "the password is the one line of standard input");
  }

  Status Create() { return WithPassword("create", "users.create", true); }

  Status WithPassword(const char* verb, const char* op, bool with_grant) {
    std::string request;
    JsonWriter json(&request);
    json.BeginObject().Member("op", op).Member("name", name_);
    if (no_password_) {
      if (password_stdin_)
        return InvalidArgument("invalid_value", "--no-password and --password-stdin: which?");
      json.Member("no_password", true);
    } else {
      ASSIGN_OR_RETURN(const std::string password,
                       password_stdin_ ? PipedPassword(STDIN_FILENO) : TypedPassword());
      json.Member("password", password);
    }
    if (with_grant) grant_.Write(&json);
    json.EndObject();
    RETURN_IF_ERROR(ChangeAndPrint(verb, request));
    if (with_grant) grant_.WarnOfUnknownModels(requests_.at(verb));
    return OkStatus();
  }

  // A line of what is done; with --json the answer.
  Status ChangeAndPrint(const char* verb, const std::string& request) {
    const StoreRequest& asked = requests_.at(verb);
    const auto absent = verb == std::string_view("create") ? StoreRequest::Absent::kMake
                                                           : StoreRequest::Absent::kRefuse;
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, asked.Ask(request, absent));
    if (!asked.PrintedJson(answer)) std::printf("%s %s\n", Done(verb), name_.c_str());
    return OkStatus();
  }

  static const char* Done(std::string_view verb) {
    if (verb == "create") return "created";
    if (verb == "passwd") return "new password of";
    if (verb == "enable") return "enabled";
    return verb == "disable" ? "disabled" : "deleted";
  }

  Status List() {
    const StoreRequest& asked = requests_.at("list");
    ASSIGN_OR_RETURN(const protocol::JsonDocument answer, asked.Ask(R"({"op":"users.list"})"));
    if (asked.PrintedJson(answer)) return OkStatus();
    const protocol::Json* const users = answer.root().get_object().if_contains("users");
    if (users == nullptr || !users->is_array()) return Internal("the answer has no users");
    std::vector<std::vector<std::string>> rows = {
        {"NAME", "STATE", "TENANT", "ROUTES", "MODELS", "LIMITS", "CREATED"}};
    for (const protocol::Json& each : users->get_array()) {
      if (!each.is_object()) continue;
      const JsonObject& user = each.get_object();
      rows.push_back({protocol::MemberText(user, "name"),
                      MemberFlag(user, "enabled") ? "enabled" : "disabled",
                      protocol::MemberText(user, "tenant"), RoutesText(user), ModelsText(user),
                      LimitsText(user), MemberDate(user, "created_s")});
    }
    std::fputs(TextTable(rows).c_str(), stdout);
    return OkStatus();
  }

  bool password_stdin_ = false, no_password_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeKeysCommand() { return std::make_unique<KeysCommand>(); }
std::unique_ptr<Command> MakeUsersCommand() { return std::make_unique<UsersCommand>(); }

}  // namespace tutti::cli
