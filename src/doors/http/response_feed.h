// ResponseFeed: a response of the Responses API as one connection sees it: its events as they come,
// or the whole object once it has ended. The response belongs to others and goes on without it.
//
// An exchange's own; its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "doors/http/event_stream.h"
#include "doors/http/response_cursor.h"
#include "services/responses/response.h"

namespace tutti::http {

class ResponseFeed {
 public:
  explicit ResponseFeed(Connection& connection) : connection_(connection), events_(connection) {}
  ~ResponseFeed();

  // Server-sent events behind `starting_after` (-1: from the first) until the terminal one. One
  // that there is not is an error (CheckPlace). `ignored`: names of unknown fields, for the head.
  // `obfuscated`: deltas are padded at random. `asked`: the head waits for what a cache of answers
  // says of it.
  void Stream(const std::shared_ptr<responses::Response>& response, int64_t starting_after,
              std::vector<std::string> ignored, bool obfuscated, bool asked = false);
  // The response object when it has ended. One that failed is its error, as an HTTP answer, or, for
  // who asked something else of it than the answer, the object that says so.
  enum class Failed { kError, kObject };
  void Whole(const std::shared_ptr<responses::Response>& response, std::vector<std::string> ignored,
             Failed failed = Failed::kError);
  // The response object as it is once there is an event of it: if it is stored, its request is
  // durable then.
  void Begun(const std::shared_ptr<responses::Response>& response,
             std::vector<std::string> ignored);

  void Pump();
  TimePoint Due() const;
  void OnTimer(TimePoint now);

 private:
  bool Attach(const std::shared_ptr<responses::Response>& response, int64_t starting_after);
  void PumpEvents();
  std::string Shown(ResponseCursor::Event event);
  void PumpWhole();
  void PumpBegun();
  void FailEvents(const Status& status,
                  std::string frames);              // `frames` and an error end the stream
  void Leave(const responses::Response& response);  // with an error, if it is interrupted
  void Stop();

  Connection& connection_;
  std::optional<ResponseCursor> cursor_;
  enum class Shows { kEvents, kWhole, kBegun };
  Shows shows_ = Shows::kWhole;
  Failed failed_ = Failed::kError;
  std::optional<Random> padding_;  // of deltas; absent: none is asked for
  std::vector<std::string> ignored_;
  EventStream events_;
};

}  // namespace tutti::http
