// SendPace: the time of the next message: after the minimum interval since the last message, and
// after the server's retry-after time. A value; one thread at a time.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace tutti::client {

class SendPace {
 public:
  // Interval that servers of the project profile expect of their clients.
  static constexpr Duration kUsual = std::chrono::milliseconds(100);

  // `min_interval`: between the beginnings of two sends; 0: none.
  explicit SendPace(Duration min_interval = kUsual) : min_interval_(min_interval) {}

  // Earliest time of the next message.
  TimePoint due() const { return due_; }
  void Sent(TimePoint now) { due_ = std::max(due_, now + min_interval_); }
  // Applies the server's retry-after; never makes the next message earlier.
  void HoldUntil(TimePoint when) { due_ = std::max(due_, when); }

 private:
  Duration min_interval_;
  TimePoint due_{};
};

}  // namespace tutti::client
