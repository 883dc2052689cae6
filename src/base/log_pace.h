// LogPace: limits the log to one line a second for an event that clients can cause as often as they
// like, and counts the events without a line. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace tutti {

class LogPace {
 public:
  // Called for each event. Empty when the event must not be logged; else the number of events that
  // were not logged since the last line.
  std::optional<int64_t> Next(TimePoint now) {
    const int64_t second =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    if (last_line_.exchange(second) == second) {
      untold_.fetch_add(1);
      return std::nullopt;
    }
    return untold_.exchange(0);
  }

 private:
  std::atomic<int64_t> last_line_{-1};  // second of the clock
  std::atomic<int64_t> untold_{0};
};

}  // namespace tutti
