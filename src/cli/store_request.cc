#include "cli/store_request.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "app/control.h"
#include "app/store.h"
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
  return app::AnswerControl(store, *authority, request);
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
  return NotFound("not_found", "there is no store in " + folder + ": name it with --store");
}

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
  const protocol::Json* const ok = object.if_contains("ok");
  if (ok != nullptr && ok->is_bool() && ok->get_bool()) {
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

}  // namespace tutti::cli
