// EventParser: parses the bytes of a stream of server-sent events, as they arrive, into the data of
// its events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
//
// Lines end with CR, LF or both; a byte order mark at the start, comments and fields other than
// data are passed over; the data lines of one event are joined with a line end. An event at the end
// of the stream that lacks its empty line is given all the same, as some servers write it so. One
// per stream; not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::client {

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

}  // namespace tutti::client
