// LineSplitter: splits a file that arrives in pieces into lines with their offsets. A line that is
// too long is reported without its text. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tutti::batches {

class LineSplitter {
 public:
  struct Line {
    int64_t number = 0;     // from 1
    int64_t offset = 0;     // of its first byte
    std::string_view text;  // without its end, until the call returns; nothing where it is too long
    bool too_long = false;
  };
  using Sink = std::function<void(const Line&)>;

  explicit LineSplitter(size_t max_bytes) : max_bytes_(max_bytes) {}

  void Feed(std::string_view bytes, const Sink& sink) {
    while (true) {
      const size_t end = bytes.find('\n');
      Take(bytes.substr(0, end));
      if (end == std::string_view::npos) return;
      Tell(sink);
      ++offset_;
      bytes.remove_prefix(end + 1);
    }
  }
  // Ends the file: text after the last newline is a line too.
  void End(const Sink& sink) {
    if (taken_ > 0) Tell(sink);
  }

 private:
  void Take(std::string_view bytes) {
    taken_ += bytes.size();
    if (taken_ <= max_bytes_ + 1) line_ += bytes;  // one more: CR of its end
  }
  void Tell(const Sink& sink) {
    if (taken_ == line_.size() && line_.ends_with('\r')) line_.pop_back();
    const bool too_long = line_.size() > max_bytes_ || taken_ > line_.size() + 1;
    sink({++number_, offset_, too_long ? std::string_view() : std::string_view(line_), too_long});
    offset_ += static_cast<int64_t>(taken_);
    taken_ = 0;
    line_.clear();
  }

  const size_t max_bytes_;
  std::string line_;  // so far, as long as it is not too long
  size_t taken_ = 0;  // of it
  int64_t number_ = 0, offset_ = 0;
};

}  // namespace tutti::batches
