// Structured log: one line per event, `2026-01-31T12:00:00.123Z INFO http.request id=r-1 status=200
// ms=12.3`.
//
// A Logger is created once by main and passed to its users; any thread. Log() does not wait for the
// terminal, pipe or disk: lines go through a bounded queue to the writer thread. Lines that find
// the queue full are dropped, and their number is logged later (`log.dropped lines=7`). Values are
// escaped (control characters, quotes, every byte that is not ASCII) and cut at 256 bytes, so that
// no client can forge a line or a terminal escape. Text of prompts and answers is never given to a
// Logger.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace tutti {

enum class LogLevel { kInfo, kWarn, kError, kOff };

Result<LogLevel> ParseLogLevel(std::string_view name);  // info | warn | error | off

// Printable ASCII on one line, cut at `max_bytes`; quoted when it is empty or cut, or holds
// anything but letters, digits and ._:/+-,*[]{}.
std::string LogEscape(std::string_view value, size_t max_bytes = 256);

struct LogField {
  LogField(std::string_view field_key, std::string_view text)
      : key(field_key), value(LogEscape(text)) {}
  LogField(std::string_view field_key, const char* text)
      : LogField(field_key, std::string_view(text)) {}
  LogField(std::string_view field_key, const std::string& text)
      : LogField(field_key, std::string_view(text)) {}
  template <std::integral T>
  LogField(std::string_view field_key, T number) : key(field_key), value(std::to_string(number)) {}
  LogField(std::string_view field_key, double number);  // three decimals

  std::string_view key;
  std::string value;  // as written
};

class Logger {
 public:
  // To standard error, or appended to `path`. A file that cannot be opened falls back to standard
  // error.
  explicit Logger(LogLevel level, const std::string& path = "");
  // Lines go to `sink` instead, each without its line break: for tests. `queue_lines` = 0: written
  // by the thread that logs.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void Line(std::string_view line) = 0;  // calls are serialised
  };
  Logger(LogLevel level, std::shared_ptr<Sink> sink, size_t queue_lines = 0);
  ~Logger();  // after the last line is written
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  bool Enabled(LogLevel level) const;
  void SetLevel(LogLevel level);  // from now on
  // `event` is a fixed name from the code ("model.loaded"); never client data.
  void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
  void Info(std::string_view event, std::initializer_list<LogField> f = {}) {
    Log(LogLevel::kInfo, event, f);
  }
  void Warn(std::string_view event, std::initializer_list<LogField> f = {}) {
    Log(LogLevel::kWarn, event, f);
  }
  void Error(std::string_view event, std::initializer_list<LogField> f = {}) {
    Log(LogLevel::kError, event, f);
  }
  void Flush();  // waits until everything logged so far is written

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Limits the log to one line a second for an event that clients can cause as often as they like,
// and counts the events without a line. Any thread.
class LogPace {
 public:
  // Called for each event. Empty when the event must not be logged; else the number of events that
  // were not logged since the last line.
  std::optional<int64_t> Next(TimePoint now) {
    const int64_t second =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    if (last_line_.exchange(second) == second) {
      unreported_.fetch_add(1);
      return std::nullopt;
    }
    return unreported_.exchange(0);
  }

 private:
  std::atomic<int64_t> last_line_{-1};  // second of the clock
  std::atomic<int64_t> unreported_{0};
};

}  // namespace tutti
