// LogPace: at most a line a second of the log about what clients can bring about as often as they
// like; the next line tells how many had none. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace tutti {

class LogPace {
 public:
  // Of one event: nothing when it is to have no line, else how many had none since the last line.
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
