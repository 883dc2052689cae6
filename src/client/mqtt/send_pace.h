// SendPace: when the next message may leave: not sooner after the last than the interval, and not
// before a server that was asked too much wants to hear of us again. A value; one thread at a time.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace tutti::client {

class SendPace {
 public:
  // What servers of the project profile expect of their clients.
  static constexpr Duration kUsual = std::chrono::milliseconds(100);

  // `min_interval`: between the beginnings of two sends; 0: none.
  explicit SendPace(Duration min_interval = kUsual) : min_interval_(min_interval) {}

  // The next may leave from then on.
  TimePoint due() const { return due_; }
  void Sent(TimePoint now) { due_ = std::max(due_, now + min_interval_); }
  // As the server has said (retry-after). Never makes it sooner.
  void HoldUntil(TimePoint when) { due_ = std::max(due_, when); }

 private:
  Duration min_interval_;
  TimePoint due_{};
};

}  // namespace tutti::client
