// Rate limits of the sessions of projects (SessionRates).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/config/mqtt_projects.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/limits/limiter.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"

namespace tutti::app {

// Rate limits of sessions, from the `rate` of their project in the settings.
//
// All protocols share one object, so that a session cannot double its rate by using two of them.
// Sessions of other tenants or without a configured project are not limited. Used on the sessions'
// strand only.
class SessionRates {
 public:
  // `tenant`: the projects'. `clock` outlives it; `unix_s`: the wall clock.
  SessionRates(const std::vector<MqttProject>& projects, std::string tenant, const Clock* clock,
               std::function<int64_t()> unix_s);

  // Counts one message of the session. The count becomes final when the returned function is called
  // and is reverted if that function is destroyed without a call. Errors: rate_limit_exceeded, with
  // retry-after; overloaded (too many sessions).
  Result<sessions::Admitted> Admit(const sessions::SessionKey& key);

 private:
  const std::string tenant_;
  std::map<std::string, limits::Window> rates_;  // by project; those that have one
  const Clock& clock_;
  limits::Limiter limiter_;
  TimePoint tidied_;
};

}  // namespace tutti::app
