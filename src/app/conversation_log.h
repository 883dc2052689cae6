// ConversationLog: what is said in a dialog, as JSON lines in a file, for finding faults. Off
// unless the operator names a file and a session; secrets are masked (redact.h); it ends by itself.
//
//   {"time":"...","tenant":"default","project":"driving","session":"car-1","turn":3,"role":"user",
//    "text":"..."}
//
// The file belongs to this user alone (0600). At its size it becomes FILE.1, that one FILE.2 and so
// on to FILE.3, which goes. A thread of its own writes; what it cannot keep up with is left out,
// and counted in the file. Asked and Answered: one thread at a time (the dialogs' strand).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "services/sessions/turn_watcher.h"

namespace tutti::app {

class ConversationLog final : public sessions::TurnWatcher {
 public:
  struct Options {
    std::string file;
    std::string session;  // as the dialogs know it; "*": all
    int64_t file_bytes = 8 << 20;
    Duration time = std::chrono::hours(1);  // from now on, then no more
  };
  static constexpr int kOlderFiles = 3;

  // `clock` and `log` outlive it; `unix_ms`: the wall clock. Errors: invalid_value (no session),
  // io_error (the file).
  static Result<std::unique_ptr<ConversationLog>> Open(Options options, const Clock* clock,
                                                       std::function<int64_t()> unix_ms,
                                                       Logger* log);
  ~ConversationLog() override;  // what waits is written

  void Asked(const sessions::SessionKey& key, int64_t turn,
             const sessions::Message& message) override;
  void Answered(const sessions::SessionKey& key, int64_t turn,
                const wire::ResponseState& end) override;

  void Flush();  // until what was told before is in the file. For tests

 private:
  class Writer;
  ConversationLog(Options options, const Clock* clock, std::function<int64_t()> unix_ms,
                  Logger* log, std::unique_ptr<Writer> writer);
  bool Follows(const sessions::SessionKey& key);
  void Write(const sessions::SessionKey& key, int64_t turn, std::string_view role,
             std::string_view text, std::string_view status);

  const Options options_;
  const Clock& clock_;
  const std::function<int64_t()> unix_ms_;
  Logger& log_;
  const TimePoint until_;
  bool over_ = false;
  const std::unique_ptr<Writer> writer_;
};

}  // namespace tutti::app
