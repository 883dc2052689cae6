// Control requests of operators (protocol/control.h): about keys, users, usage, jobs, batches and
// caches. They come from a server's control socket, from a command that has opened the store
// itself, and from the routes below /admin.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "app/caches.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "services/auth/authenticator.h"
#include "store/store.h"

namespace tutti::app {

// Executes a request (control.h of services/auth, services/usage and services/jobs). Blocks for the
// disk and for password hashing. A server executes requests about jobs and batches itself
// (app/state.cc), because there they change what is running.
Result<std::string> AnswerControl(store::Store& store, auth::Authenticator& authority,
                                  std::string_view request);

// Requests that only a server can answer: {"models":["..."]}, the models that the gateway serves
// now.
inline constexpr std::string_view kModelsRequest = R"({"op":"models.list"})";
std::string ModelsAnswer(const api::ModelList& models);

// {"op":"cache.flush","tenant":"..."} -> {"answers":n}: the number of removed answers and encoder
// rows. Without `tenant`, the caches of all tenants are flushed. Refused where there is no cache,
// for example without a server.
bool IsCacheRequest(std::string_view request);
Result<std::string> AnswerCacheControl(const Caches& caches, std::string_view request);

// Audit lines in the server's log for changes by operators:
// `accounts.changed op=keys.create name=ci id=... tenant=acme result=ok by=control`, and
// `jobs.changed op=jobs.cancel id=job_... result=ok by=key:...`. Lines contain names and public ids
// only, no keys or passwords. Also logs when the server becomes closed or open to anonymous
// callers.
//
// Any thread. Changes of accounts are made one after the other, so that each line about an open or
// closed server belongs to the change before it.
class OperatorLog {
 public:
  // Both outlive it; `log` may be null.
  OperatorLog(const auth::Authenticator& authority, Logger* log)
      : authority_(authority), log_(log) {}

  // Returns answer(request) for a control request, and logs a line if the request changes
  // something. `by`: the credential of the operator, or "control".
  Result<std::string> Answer(std::string_view request, std::string_view by,
                             const std::function<Result<std::string>(std::string_view)>& answer);

 private:
  void LogAccounts(const protocol::JsonObject& asked, const Result<std::string>& answer,
                   std::string_view by);

  const auth::Authenticator& authority_;
  Logger* const log_;
  Mutex accounts_mutex_;  // held while accounts change
};

}  // namespace tutti::app
