#include "server/mqtt/bridge/reconnect_backoff.h"

#include <algorithm>

namespace tutti::mqtt::bridge {

Duration ReconnectBackoff::Lost(TimePoint now) {
  const bool stable = connected_ != TimePoint::max() && now - connected_ >= limits_.stable;
  connected_ = TimePoint::max();
  due_ = stable || due_ == Duration::zero() ? limits_.first : std::min(due_ * 2, limits_.most);
  return Duration(random_.Between((due_ / 2).count(), due_.count()));
}

}  // namespace tutti::mqtt::bridge
