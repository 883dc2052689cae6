// MqttRates: how often a session of a project may say something, as the settings' `rate` has it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/mqtt_projects.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/limits/limiter.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"

namespace tutti::app {

// One for all ways in, so that a session cannot ask twice as much through two. Sessions of no
// project of the settings, and of other tenants, are not its concern. One thread at a time: the
// dialogs' strand.
class MqttRates {
 public:
  // `tenant`: the projects'. `clock` outlives it; `unix_s`: the wall clock.
  MqttRates(const std::vector<MqttProject>& projects, std::string tenant, const Clock* clock,
            std::function<int64_t()> unix_s);

  // Counts one message of the session, for good when what it gives is called, and not at all where
  // that goes uncalled. Errors: rate_limit_exceeded, with the time after which the same passes;
  // overloaded (too many sessions to remember).
  Result<sessions::Admitted> Admit(const sessions::SessionKey& key);

 private:
  const std::string tenant_;
  std::map<std::string, limits::Window> rates_;  // by project; those that have one
  const Clock& clock_;
  limits::Limiter limiter_;
  TimePoint tidied_;
};

}  // namespace tutti::app
