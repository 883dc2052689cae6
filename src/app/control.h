// Control requests of the operator's commands (keys, users, usage, jobs), from a server's control
// socket or from a command that has opened the store itself.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "app/caches.h"
#include "base/log.h"
#include "services/auth/authenticator.h"
#include "store/store.h"

namespace tutti::app {

// Executes a request: one JSON object in, one out (control.h of services/auth, services/usage and
// services/jobs). Blocks for the disk and for password hashing. A server executes requests of jobs
// itself (app/state.cc), because there they change jobs that are running.
std::string AnswerControl(store::Store& store, auth::Authenticator& authority,
                          std::string_view request);

// Requests that only a server can answer: {"ok":true,"models":["..."]}, the models that the gateway
// serves now.
inline constexpr std::string_view kModelsRequest = R"({"op":"models.list"})";
std::string ModelsAnswer(const std::vector<api::ModelInfo>& models);

// {"op":"cache.flush","tenant":"..."} -> {"ok":true,"answers":n}: the number of removed answers and
// encoder rows. Without `tenant`, the caches of all tenants are flushed. Refused where there is no
// cache, for example without a server.
bool IsCacheRequest(std::string_view request);
std::string AnswerCacheControl(const Caches& caches, std::string_view request);

// Audit lines in the server's log for changes of keys and users by operators:
// `accounts.changed op=keys.create name=ci id=... tenant=acme result=ok`. Lines contain names and
// public ids only, no keys or passwords. Also logs when the server becomes closed or open to
// anonymous callers.
//
// For use by one thread at a time.
class AccountLog {
 public:
  // Both outlive it; `log` may be null.
  AccountLog(const auth::Authenticator& authority, Logger* log)
      : authority_(authority), log_(log) {}

  // Returns answer(request) for a control request (services/auth/control.h), and logs a line if the
  // request changes something.
  std::string Answer(std::string_view request,
                     const std::function<std::string(std::string_view)>& answer);

 private:
  const auth::Authenticator& authority_;
  Logger* const log_;
};

}  // namespace tutti::app
