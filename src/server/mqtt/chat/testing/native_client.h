// NativeClient: a client of the native profile that follows its documentation: orders the events of
// a response by their numbers, requests missing ones, and takes the answer from the text of the
// final event. For tests; pure.
#pragma once

#include <optional>
#include <string>

#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat::testing {

class NativeClient {
 public:
  // A resume, if there is a new gap.
  std::optional<std::string> Take(const Event& event) {
    if (event.Text("type") == "accepted") id_ = event.Text("response_id");
    if (!event.Has("sequence_number") || ended_) return std::nullopt;
    const int64_t last = event.Int("sequence_number");
    const int64_t first = event.Int("first_sequence_number", last);
    if (last <= seen_) return std::nullopt;
    if (event.Find("response") != nullptr && !event.Answer().empty()) {
      ended_ = true;
      final_ = event.Answer();
      complete_ = first == seen_ + 1;
      return std::nullopt;
    }
    if (first != seen_ + 1) {
      ++gaps_;
      if (asked_ == seen_ || id_.empty()) return std::nullopt;
      asked_ = seen_;
      return R"({"type":"resume","response_id":")" + id_ + "\"" +
             (seen_ < 0 ? "" : ",\"starting_after\":" + std::to_string(seen_)) + "}";
    }
    seen_ = last;
    if (event.Text("type") == "response.output_text.delta") text_ += event.Text("delta");
    return std::nullopt;
  }
  bool ended() const { return ended_; }
  bool complete() const { return complete_; }  // without a gap to the end
  int gaps() const { return gaps_; }
  const std::string& text() const { return text_; }    // of the deltas
  const std::string& final() const { return final_; }  // the answer

 private:
  std::string id_, text_, final_;
  int64_t seen_ = -1, asked_ = -2;
  bool ended_ = false, complete_ = false;
  int gaps_ = 0;
};

}  // namespace tutti::mqtt::chat::testing
