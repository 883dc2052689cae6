// AccountLog: audit lines in the server's log for changes of keys and users by operators:
// `accounts.changed op=keys.create name=ci id=... tenant=acme result=ok`. Lines contain names and
// public ids only, no keys or passwords. Also logs when the server becomes closed or open to
// anonymous callers.
//
// For use by one thread at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "services/auth/authenticator.h"

namespace tutti::app {

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
