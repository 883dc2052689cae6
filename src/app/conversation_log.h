// ConversationLog: debug log of the messages of one session, or of all, as JSON lines in a file.
// Off unless the operator names a file and a session; secrets are masked (Redact()); logging stops
// after Options::time.
//
//   {"time":"...","tenant":"default","project":"driving","session":"car-1","turn":3,"role":"user",
//    "text":"..."}
//
// The file has mode 0600. A file of Options::file_bytes is rotated to FILE.1, FILE.1 to FILE.2 and
// so on; FILE.3 is deleted. The log owns a writer thread; messages that overrun its queue are
// dropped, and the file records their number. The sessions' strand calls OnAccepted() and
// OnEnded(), one call at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "services/sessions/message.h"

namespace tutti::app {

// Replaces secrets that can be recognized by their form with "***": keys, tokens, values after the
// word "password", private keys, card numbers, and random-looking words. Best effort: secrets
// without a recognizable form stay. Pure.
std::string Redact(std::string_view text);

class ConversationLog final : public sessions::TurnWatcher {
 public:
  struct Options {
    std::string file;
    std::string session;  // name of the session; "*": all
    int64_t file_bytes = 8 << 20;
    Duration time = std::chrono::hours(1);  // duration of logging, from Open() on
  };
  static constexpr int kOlderFiles = 3;

  // `clock` and `log` outlive it; `unix_ms`: the wall clock. Errors: invalid_value (no session),
  // io_error (the file).
  static Result<std::unique_ptr<ConversationLog>> Open(Options options, const Clock* clock,
                                                       std::function<int64_t()> unix_ms,
                                                       Logger* log);
  ~ConversationLog() override;  // writes what is queued

  void OnAccepted(const sessions::SessionKey& key, int64_t turn,
                  const sessions::Message& message) override;
  void OnEnded(const sessions::SessionKey& key, int64_t turn,
               const protocol::ResponseState& end) override;

  void Flush();  // waits until the earlier turns are in the file; for tests

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
