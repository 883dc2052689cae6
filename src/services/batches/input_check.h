// InputCheck: incremental validation of a batch's input file. Memory is bounded: one line and the
// first kMaxErrors errors. LineSplitter: its lines.
//
// For use by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/openai/batch.h"
#include "services/batches/batch_rows.h"

namespace tutti::batches {

// Splits a file that arrives in pieces into lines with their offsets. A line that is too long is
// reported without its text. Pure.
class LineSplitter {
 public:
  struct Line {
    int64_t number = 0;     // from 1
    int64_t offset = 0;     // of its first byte
    std::string_view text;  // without its end, until the sink returns; empty if it is too long
    bool too_long = false;
  };
  using Sink = std::function<void(const Line&)>;

  explicit LineSplitter(size_t max_bytes) : max_bytes_(max_bytes) {}

  void Feed(std::string_view bytes, const Sink& sink) {
    while (true) {
      const size_t end = bytes.find('\n');
      Take(bytes.substr(0, end));
      if (end == std::string_view::npos) return;
      Send(sink);
      ++offset_;
      bytes.remove_prefix(end + 1);
    }
  }
  // Ends the file: text after the last newline is a line too.
  void End(const Sink& sink) {
    if (taken_ > 0) Send(sink);
  }

 private:
  void Take(std::string_view bytes) {
    taken_ += bytes.size();
    if (taken_ <= max_bytes_ + 1) line_ += bytes;  // one more: CR of its end
  }
  void Send(const Sink& sink) {
    if (taken_ == line_.size() && line_.ends_with('\r')) line_.pop_back();
    const bool too_long = line_.size() > max_bytes_ || taken_ > line_.size() + 1;
    sink({++number_, offset_, too_long ? std::string_view() : std::string_view(line_), too_long});
    offset_ += static_cast<int64_t>(taken_);
    taken_ = 0;
    line_.clear();
  }

  const size_t max_bytes_;
  std::string line_;  // the current line so far, unless too long
  size_t taken_ = 0;  // of it
  int64_t number_ = 0, offset_ = 0;
};

class InputCheck {
 public:
  static constexpr size_t kMaxErrors = 100;  // that are reported

  // `model`: whether a model may be used, by its name.
  InputCheck(std::string endpoint, std::function<Status(const std::string&)> model)
      : endpoint_(std::move(endpoint)),
        model_(std::move(model)),
        splitter_(static_cast<size_t>(protocol::kMaxBatchLineBytes)) {}

  // Reads more bytes and returns the valid lines that they complete.
  std::vector<NewLine> Feed(std::string_view bytes);
  std::vector<NewLine> End();  // at the end of the file; returns a last line without newline
  // Adds errors for lines whose custom_id is not unique.
  void AddDuplicates(const std::vector<int64_t>& lines);

  // True once the file exceeds a limit, so that the rest need not be read.
  bool hopeless() const { return hopeless_; }
  const std::vector<protocol::BatchError>& errors() const { return errors_; }
  int64_t lines() const { return lines_; }                         // that may run
  const std::string& first_model() const { return first_model_; }  // empty: none is named

 private:
  void OnLine(const LineSplitter::Line& line, std::vector<NewLine>* good);
  void Fault(std::string code, std::string message, std::string param, int64_t line);

  const std::string endpoint_;
  const std::function<Status(const std::string&)> model_;
  LineSplitter splitter_;
  std::vector<protocol::BatchError> errors_;
  std::string first_model_, known_model_;
  int64_t lines_ = 0, inputs_ = 0;
  bool hopeless_ = false;
};

}  // namespace tutti::batches
