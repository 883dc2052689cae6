#include "app/control.h"

#include <chrono>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "protocol/control.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "services/auth/control.h"
#include "services/auth/grant.h"
#include "services/auth/key_text.h"
#include "services/auth/principal.h"
#include "services/jobs/control.h"
#include "services/sessions/dialog_quota.h"
#include "services/usage/control.h"

namespace tutti::app {
namespace {

// Names of keys, also of revoked ones for as long as the store has them.
Result<std::map<std::string, std::string>> KeyNames(auth::Accounts& accounts) {
  ASSIGN_OR_RETURN(const std::vector<auth::KeyRecord> keys, accounts.Keys());
  std::map<std::string, std::string> names;
  for (const auth::KeyRecord& key : keys)
    names.emplace(auth::CredentialOf(auth::PrincipalKind::kKey, key.id), key.name);
  return names;
}

// Name of the user that a request deletes; empty: none.
std::string DeletedUser(std::string_view request) {
  const Result<protocol::JsonDocument> document = protocol::ParseJson(request, 1024);
  if (!document.ok() || !document->root().is_object()) return "";
  const protocol::JsonObject& object = document->root().get_object();
  return protocol::ControlOperation(object) == "users.delete" ? protocol::MemberText(object, "name")
                                                              : "";
}

Result<std::string> TenantOf(auth::Accounts& accounts, const std::string& user) {
  ASSIGN_OR_RETURN(const std::vector<auth::UserRecord> users, accounts.Users());
  for (const auth::UserRecord& each : users) {
    if (each.name == user) return each.grant.tenant;
  }
  return std::string();
}

// Deletes the dialogs of a deleted user; otherwise a new user of the same name would get them.
// Running requests of the user end meanwhile; without a server, none run.
Status ForgetDialogs(store::Store& store, const std::string& tenant, const std::string& user,
                     bool serving) {
  const std::string owner = auth::CredentialOf(auth::PrincipalKind::kUser, user);
  constexpr std::chrono::milliseconds kPause{50};
  constexpr int kTries = 40;
  int64_t left = 0;
  for (int i = 0; i < kTries; ++i) {
    RETURN_IF_ERROR(store.WriteNow([&](store::Database& rows) -> Status {
      ASSIGN_OR_RETURN(left, sessions::RemoveDialogsOf(rows, tenant, owner, !serving));
      return OkStatus();
    }));
    if (left == 0) return OkStatus();
    std::this_thread::sleep_for(kPause);
  }
  return Unavailable("overloaded", std::to_string(left) + " of them are being answered");
}

Result<std::string> DeleteUser(store::Store& store, auth::Authenticator& authority,
                               std::string_view request, const std::string& name) {
  const Result<std::string> tenant = TenantOf(authority.accounts(), name);
  ASSIGN_OR_RETURN(std::string answer, auth::HandleControl(authority, request, std::time(nullptr)));
  const Status gone = tenant.ok()
                          ? ForgetDialogs(store, *tenant, name, authority.accounts().serving())
                          : tenant.status();
  if (gone.ok()) return answer;
  return Status(gone.code(), gone.reason(),
                "the user is deleted, but not the dialogs: " + gone.message());
}

// --- OperatorLog ---

constexpr size_t kMaxControlValues = 1024;

const protocol::JsonObject* ObjectOf(const Result<protocol::JsonDocument>& document) {
  return document.ok() && document->root().is_object() ? &document->root().get_object() : nullptr;
}

// A client may send a secret key in place of its name: log only the public id of such a key.
std::string Harmless(const std::string& name) {
  if (const std::optional<std::string_view> id = auth::KeyIdOf(name)) return std::string(*id);
  return auth::IsName(name) ? name : "-";
}

// Public ids of the key that was created, or of the keys that were revoked, with commas; else "-".
std::string IdsOf(const protocol::JsonObject& answer) {
  if (const protocol::Json* const key = answer.if_contains("key");
      key != nullptr && key->is_object())
    return protocol::MemberText(key->get_object(), "id");
  std::string ids;
  if (const protocol::Json* const revoked = answer.if_contains("revoked");
      revoked != nullptr && revoked->is_array()) {
    for (const protocol::Json& id : revoked->get_array()) {
      if (id.is_string()) ids += (ids.empty() ? "" : ",") + std::string(id.get_string());
    }
  }
  return ids.empty() ? "-" : ids;
}

bool ReadsOnly(std::string_view op) { return op.ends_with(".list") || op.ends_with(".show"); }

// Whether it would change an account; a job, a batch or a tenant's queue.
bool ChangesAccounts(std::string_view op) {
  return (op.starts_with("keys.") || op.starts_with("users.")) && !ReadsOnly(op);
}
bool ChangesJobs(std::string_view op) {
  return (op.starts_with("jobs.") || op.starts_with("batches.")) && !ReadsOnly(op);
}

std::string ResultOf(const Result<std::string>& answer) {
  return answer.ok() ? "ok" : answer.status().reason();
}

// An id or a tenant that an operator sent, if it can be one.
std::string NameOrDash(const protocol::JsonObject& asked, std::string_view member) {
  const std::string text = protocol::MemberText(asked, member);
  return auth::IsName(text) ? text : "-";
}

}  // namespace

Result<std::string> AnswerControl(store::Store& store, auth::Authenticator& authority,
                                  std::string_view request) {
  if (IsCacheRequest(request)) return AnswerCacheControl({}, request);
  if (jobs::IsJobsRequest(request))
    return jobs::HandleControl(store, /*running=*/nullptr, request, UnixMillis());
  if (usage::IsUsageRequest(request)) {
    return usage::HandleControl(
        store, [&authority] { return KeyNames(authority.accounts()); }, request);
  }
  if (const std::string name = DeletedUser(request); !name.empty())
    return DeleteUser(store, authority, request, name);
  return auth::HandleControl(authority, request, std::time(nullptr));
}

bool IsCacheRequest(std::string_view request) { return protocol::HasOperation(request, "cache."); }

Result<std::string> AnswerCacheControl(const Caches& caches, std::string_view request) {
  constexpr size_t kMaxValues = 8;
  return protocol::AnswerControl(
      request, auth::kMaxControlRequestBytes, kMaxValues,
      [&](const protocol::JsonObject& asked, protocol::JsonWriter* json) -> Status {
        if (protocol::ControlOperation(asked) != "cache.flush")
          return protocol::BadControl("op", "is none of a cache: cache.flush");
        const protocol::Json* const tenant = asked.if_contains("tenant");
        if (tenant != nullptr && !tenant->is_string())
          return protocol::BadControl("tenant", "must be a string");
        if (!caches.any()) {
          return Status(StatusCode::kFailedPrecondition, "no_cache",
                        "no answers are kept: no server runs on the store, or its caches are off");
        }
        const size_t gone = caches.Flush(
            tenant == nullptr ? std::nullopt : std::optional(std::string(tenant->get_string())));
        json->Member("answers", static_cast<int64_t>(gone));
        return OkStatus();
      });
}

std::string ModelsAnswer(const api::ModelList& models) {
  std::string answer;
  protocol::JsonWriter json(&answer);
  json.BeginObject().Key("models").BeginArray();
  for (const api::ModelInfo& model : models) json.String(model.id);
  json.EndArray().EndObject();
  return answer;
}

Result<std::string> OperatorLog::Answer(
    std::string_view request, std::string_view by,
    const std::function<Result<std::string>(std::string_view)>& answer) {
  const Result<protocol::JsonDocument> document = protocol::ParseJson(request, kMaxControlValues);
  const protocol::JsonObject* const asked = ObjectOf(document);
  const std::string op(asked == nullptr ? "" : protocol::ControlOperation(*asked));
  if (ChangesAccounts(op)) {
    const MutexLock lock(accounts_mutex_);
    const bool was_open = authority_.IsOpen(/*loopback=*/true);
    Result<std::string> told = answer(request);
    if (log_ == nullptr) return told;
    LogAccounts(*asked, told, by);
    const bool is_open = authority_.IsOpen(/*loopback=*/true);
    if (was_open && !is_open) {
      log_->Info("auth.closed",
                 {{"why", "keys or users exist now; requests without one are refused"}});
    }
    if (!was_open && is_open) {
      log_->Warn("auth.open",
                 {{"why", "the last key was deleted; every client on this machine is served"}});
    }
    return told;
  }
  Result<std::string> told = answer(request);
  if (log_ != nullptr && ChangesJobs(op)) {
    log_->Info("jobs.changed", {{"op", op},
                                {"id", NameOrDash(*asked, "id")},
                                {"tenant", NameOrDash(*asked, "tenant")},
                                {"result", ResultOf(told)},
                                {"by", by}});
  }
  return told;
}

void OperatorLog::LogAccounts(const protocol::JsonObject& asked, const Result<std::string>& answer,
                              std::string_view by) {
  std::string ids = "-";
  if (answer.ok()) {
    const Result<protocol::JsonDocument> read = protocol::ParseJson(*answer);
    if (const protocol::JsonObject* const answered = ObjectOf(read)) ids = IdsOf(*answered);
  }
  const std::string name = protocol::MemberText(asked, "name");
  log_->Info("accounts.changed",
             {{"op", std::string(protocol::ControlOperation(asked))},
              {"name", Harmless(name.empty() ? protocol::MemberText(asked, "key") : name)},
              {"id", ids},
              {"tenant", NameOrDash(asked, "tenant")},
              {"result", ResultOf(answer)},
              {"by", by}});
}

}  // namespace tutti::app
