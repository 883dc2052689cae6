// A streamed HTTP/1.1 response: its framing (StreamResponse), and the server-sent events in its
// body (EventParser).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::client {

// EventParser: parses the bytes of a stream of server-sent events, as they arrive, into the data of
// its events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
//
// Lines end with CR, LF or both; a byte order mark at the start, comments and fields other than
// data are passed over; the data lines of one event are joined with a line end. An event at the end
// of the stream that lacks its empty line is given all the same, as some servers write it so. One
// per stream; not thread-safe.
class EventParser {
 public:
  // The data of every event that the bytes complete is appended to `events`. Errors: bad_response
  // for an event above 4 MiB.
  Status Feed(std::string_view bytes, std::vector<std::string>& events);
  // The stream has ended.
  void Finish(std::vector<std::string>& events);

 private:
  void TakeLine(std::vector<std::string>& events);

  std::string line_;           // not complete yet
  std::string data_;           // of the event that is not complete yet
  bool has_data_ = false;      // a data line came, which may be empty
  bool at_start_ = true;       // no line has been complete yet
  bool after_return_ = false;  // a line feed that comes now belongs to the line before
};

// StreamResponse: parses the bytes of an HTTP/1.1 response, as they arrive, into the data of its
// server-sent events.
//
// Supports bodies with content-length, chunked, or until the connection closes; no compression;
// trailers are ignored. Works with any server, so sizes are bounded: a header above 64 KiB, an
// event above 4 MiB or malformed framing is an error. One object per response; not thread-safe.
class StreamResponse {
 public:
  // Takes more bytes; appends the data of every complete event to `events` ("[DONE]" included).
  // Other bodies are kept in body(): above 8 MiB, a body of status 200 is an error, and that of
  // another status is truncated.
  Status Feed(std::string_view bytes, std::vector<std::string>& events);
  // The connection has ended, which may complete the last event. An error if the response is
  // incomplete.
  Status End(std::vector<std::string>& events);

  int status_code() const { return status_code_; }  // 0 until the header is complete
  bool complete() const { return state_ == State::kDone; }
  bool is_event_stream() const { return event_stream_; }
  const std::string& body() const { return body_; }
  // The Retry-After header, if it is a whole number of seconds; dates are ignored.
  std::optional<std::chrono::milliseconds> retry_after() const { return retry_after_; }
  // Whether the connection can carry another request once the response is complete.
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
  std::string pending_;  // incomplete header or framing line
  EventParser parser_;
  std::string body_;
  uint64_t remaining_ = 0;  // bytes left of the body or the chunk
  int status_code_ = 0;
  bool event_stream_ = false, keeps_connection_ = false;
  std::optional<std::chrono::milliseconds> retry_after_;
};

}  // namespace tutti::client
