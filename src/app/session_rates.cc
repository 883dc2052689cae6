#include "app/session_rates.h"

#include <array>
#include <chrono>
#include <memory>
#include <utility>

namespace tutti::app {

SessionRates::SessionRates(const std::vector<MqttProject>& projects, std::string tenant,
                           const Clock* clock, std::function<int64_t()> unix_s)
    : tenant_(std::move(tenant)),
      clock_(*clock),
      limiter_({}, clock, std::move(unix_s)),
      tidied_(clock->Now()) {
  for (const MqttProject& project : projects) {
    if (project.rate.limit > 0) rates_[project.name] = project.rate;
  }
}

Result<sessions::Admitted> SessionRates::Admit(const sessions::SessionKey& key) {
  const auto rate = rates_.find(key.project);
  if (rate == rates_.end() || key.tenant != tenant_) return sessions::Admitted();
  if (const TimePoint now = clock_.Now(); now - tidied_ >= std::chrono::minutes(1)) {
    tidied_ = now;
    (void)limiter_.DropIdle();
  }
  const std::string name = key.project + "\n" + key.session;
  const std::array subjects = {
      limits::Subject{limits::SubjectKind::kSession, name, limits::Rules{.window = rate->second}}};
  ASSIGN_OR_RETURN(limits::Reservation reservation, limiter_.Reserve(subjects, {}));
  return sessions::Admitted(
      [held = std::make_shared<limits::Reservation>(std::move(reservation))] { held->Settle(0); });
}

}  // namespace tutti::app
