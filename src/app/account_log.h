// AccountLog: what operators change of keys and users in a serving process, as lines of its log:
// `accounts.changed op=keys.create name=ci id=... tenant=acme result=ok`. Names and public ids
// alone: no key, no password. Also when the server closes to callers without a key, or opens again.
//
// One thread at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "services/auth/authority.h"

namespace tutti::app {

class AccountLog {
 public:
  // Both outlive it; `log` may be null.
  AccountLog(const auth::Authority& authority, Logger* log) : authority_(authority), log_(log) {}

  // `answer` of the request (services/auth/control.h), and a line where that was to change
  // something.
  std::string Answer(std::string_view request,
                     const std::function<std::string(std::string_view)>& answer);

 private:
  const auth::Authority& authority_;
  Logger* const log_;
};

}  // namespace tutti::app
