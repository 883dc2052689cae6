#include "client/event_parser.h"

#include <algorithm>
#include <utility>

namespace tutti::client {
namespace {

constexpr size_t kMaxEvent = size_t{4} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

void EventParser::TakeLine(std::vector<std::string>& events) {
  std::string_view line = line_;
  if (std::exchange(at_start_, false) && line.starts_with(kByteOrderMark))
    line.remove_prefix(kByteOrderMark.size());
  if (line.empty()) {
    if (has_data_) events.push_back(std::move(data_));
    data_.clear();
    has_data_ = false;
  } else if (line == "data" || line.starts_with("data:")) {
    line.remove_prefix(std::min<size_t>(line.size(), 5));
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  }
  line_.clear();
}

Status EventParser::Feed(std::string_view bytes, std::vector<std::string>& events) {
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, end));
    if (line_.size() + data_.size() > kMaxEvent)
      return Unavailable("bad_response", "the server's answer has an event that is too long");
    if (end == std::string_view::npos) return OkStatus();
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    TakeLine(events);
  }
  return OkStatus();
}

void EventParser::Finish(std::vector<std::string>& events) {
  if (!line_.empty()) TakeLine(events);
  if (has_data_) TakeLine(events);  // as if the empty line had come
}

}  // namespace tutti::client
