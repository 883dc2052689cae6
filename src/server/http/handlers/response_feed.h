// ResponseFeed: sends a response of the Responses API over one connection: its events as they come,
// or the whole object once it has ended. The feed does not own the response, which continues
// without it.
//
// Owned by a handler; used on its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "server/http/handlers/event_stream.h"
#include "server/http/handlers/response_cursor.h"
#include "services/responses/response.h"

namespace tutti::http {

class ResponseFeed {
 public:
  explicit ResponseFeed(Connection& connection) : connection_(connection), events_(connection) {}
  ~ResponseFeed();

  // Streams server-sent events after number `starting_after` (-1: from the first) up to the
  // terminal one. Error: there is no such number (CheckPlace). `ignored`: names of unknown fields,
  // for the head. `obfuscated`: deltas get random padding. `asked`: the head waits for the result
  // of the look-up of kept answers.
  void Stream(const std::shared_ptr<responses::Response>& response, int64_t starting_after,
              std::vector<std::string> ignored, bool obfuscated, bool asked = false);
  // Sends the response object when it has ended. A failed response gives its error as the HTTP
  // answer, or, for requests other than for the answer, the object with status failed.
  enum class Failed { kError, kObject };
  void Whole(const std::shared_ptr<responses::Response>& response, std::vector<std::string> ignored,
             Failed failed = Failed::kError);
  // Sends the response object after its first event; if the response is stored, its request is
  // durable by then.
  void Begun(const std::shared_ptr<responses::Response>& response,
             std::vector<std::string> ignored);

  void Pump();
  TimePoint Due() const;
  void OnTimer(TimePoint now);

 private:
  bool Attach(const std::shared_ptr<responses::Response>& response, int64_t starting_after);
  void PumpEvents();
  protocol::EventExtras ExtrasOf(const ResponseCursor::Event& event);
  void PumpWhole();
  void PumpBegun();
  void FailEvents(const Status& status,
                  std::string frames);              // `frames` and an error end the stream
  void Leave(const responses::Response& response);  // with an error, if it was interrupted
  void Stop();

  Connection& connection_;
  std::optional<ResponseCursor> cursor_;
  enum class Shows { kEvents, kWhole, kBegun };
  Shows shows_ = Shows::kWhole;
  Failed failed_ = Failed::kError;
  std::optional<Random> padding_;  // padding of deltas; absent: not requested
  std::vector<std::string> ignored_;
  EventStream events_;
};

}  // namespace tutti::http
