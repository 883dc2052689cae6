// StreamResponse: the bytes of an HTTP/1.1 answer, as they come, to the data of its server-sent
// events.
//
// Understands content-length, chunked and until-close bodies; no compression, no trailers' meaning.
// Written against any server, so bounded: a header above 64 KiB, an event above 4 MiB or malformed
// framing is an error. One per answer; not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "client/event_parser.h"

namespace tutti::client {

class StreamResponse {
 public:
  // Takes more bytes; the data of every event they complete is appended to `events` ("[DONE]"
  // included). Bodies that are not event streams are kept in body(): above 8 MiB an answer of
  // status 200 is an error, and another is cut.
  Status Feed(std::string_view bytes, std::vector<std::string>& events);
  // The connection has ended, and with it perhaps the last event. An error if the answer has not.
  Status End(std::vector<std::string>& events);

  int status_code() const { return status_code_; }  // 0 until the header is complete
  bool complete() const { return state_ == State::kDone; }
  bool is_event_stream() const { return event_stream_; }
  const std::string& body() const { return body_; }
  // Of a whole number of seconds; dates are not understood.
  std::optional<std::chrono::milliseconds> retry_after() const { return retry_after_; }
  // Whether another request may follow on the connection once the answer is complete.
  bool keeps_connection() const { return keeps_connection_; }

 private:
  enum class State {
    kHeader,
    kLength,
    kChunkSize,
    kChunk,
    kChunkEnd,
    kTrailer,
    kUntilClose,
    kDone
  };
  Status ParseHeader(std::string_view header);
  Status TakeBytes(std::string_view bytes, std::vector<std::string>& events);
  Status TakeBody(std::string_view bytes, std::vector<std::string>& events);
  Status TakeLine(std::string_view line);

  State state_ = State::kHeader;
  std::string pending_;  // header, or a line of the framing, not complete yet
  EventParser parser_;
  std::string body_;
  uint64_t remaining_ = 0;  // of the body or the chunk
  int status_code_ = 0;
  bool event_stream_ = false, keeps_connection_ = false;
  std::optional<std::chrono::milliseconds> retry_after_;
};

}  // namespace tutti::client
