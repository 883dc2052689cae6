// `tutti users`: users with passwords or certificates, of a store, whether a server runs on it or
// not.
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/grant_options.h"
#include "cli/password_prompt.h"
#include "cli/store_request.h"
#include "cli/text_table.h"
#include "protocol/control.h"
#include "protocol/json/json_writer.h"

namespace tutti::cli {
namespace {

using protocol::JsonObject;
using protocol::JsonWriter;

class UsersCommand final : public Command {
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

  int Run() override {
    const Status status = run_();
    return status.ok() ? kExitOk : Fail(status);
  }

 private:
  CLI::App* Add(const char* name, const char* help, std::function<Status()> run) {
    CLI::App* const verb = app_->add_subcommand(name, help);
    requests_[name].AddTo(*verb);
    verb->callback([this, run = std::move(run)] { run_ = run; });
    return verb;
  }
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
    if (asked.json()) {
      std::printf("%s\n", protocol::PrintJson(answer.root()).c_str());
    } else {
      std::printf("%s %s\n", Done(verb), name_.c_str());
    }
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
    if (asked.json()) {
      std::printf("%s\n", protocol::PrintJson(answer.root()).c_str());
      return OkStatus();
    }
    const protocol::Json* const users = answer.root().get_object().if_contains("users");
    if (users == nullptr || !users->is_array()) return Internal("the answer has no users");
    std::vector<std::vector<std::string>> rows = {
        {"NAME", "STATE", "TENANT", "ROUTES", "MODELS", "LIMITS", "CREATED"}};
    for (const protocol::Json& each : users->get_array()) {
      if (!each.is_object()) continue;
      const JsonObject& user = each.get_object();
      const protocol::Json* const enabled = user.if_contains("enabled");
      const bool lets_in = enabled != nullptr && enabled->is_bool() && enabled->get_bool();
      rows.push_back({protocol::MemberText(user, "name"), lets_in ? "enabled" : "disabled",
                      protocol::MemberText(user, "tenant"), RoutesText(user), ModelsText(user),
                      LimitsText(user), MemberDate(user, "created_s")});
    }
    std::fputs(TextTable(rows).c_str(), stdout);
    return OkStatus();
  }

  std::map<std::string, StoreRequest, std::less<>> requests_;  // by verb
  GrantOptions grant_;
  std::string name_;
  bool password_stdin_ = false, no_password_ = false;
  std::function<Status()> run_;
};

}  // namespace

std::unique_ptr<Command> MakeUsersCommand() { return std::make_unique<UsersCommand>(); }

}  // namespace tutti::cli
