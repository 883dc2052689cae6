// ReasoningFilter: streaming filter that keeps, hides or separates the reasoning between two tags.
//
// Tags may be split over deltas: text that could become a tag is held back until that is decided.
// The concatenated output does not depend on how the text is split into deltas. Unclosed reasoning
// lasts to the end of the text. A closing tag without an opening one is text, and so is an opening
// tag within reasoning. White space after a closing tag is dropped, so that answers do not begin
// with blank lines, unless `keep_space` is set. Plain value; one owner at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::api {

enum class ReasoningMode {
  kKeep,      // the text passes unchanged
  kHide,      // reasoning and its tags are removed
  kSeparate,  // reasoning is returned separately, without its tags
};
std::optional<ReasoningMode> ParseReasoningMode(std::string_view word);  // keep, hide, separate

struct ReasoningTags {
  std::string open = "<think>", close = "</think>";  // not empty
  bool begins_inside = false;  // the template has written the opening tag into the prompt
  // Reasoning may only come once, before all text; later tags are text. Set when a grammar
  // constrains the answer, because strings in it may contain tags.
  bool leading = false;
  // White space after the closing tag belongs to the answer. Set when a grammar whose texts may
  // begin with white space constrains the answer.
  bool keep_space = false;
};

class ReasoningFilter {
 public:
  explicit ReasoningFilter(ReasoningMode mode, ReasoningTags tags = {});

  // Filters `delta` and appends complete output to both; `reasoning` grows in mode kSeparate only.
  void Push(std::string_view delta, std::string* text, std::string* reasoning);
  bool inside() const { return inside_; }  // the next text is reasoning
  // True if the last Push() contained reasoning other than white space, hidden or not.
  bool reasoned() const { return reasoned_; }
  // Ends the text: flushes what was held back.
  void Finish(std::string* text, std::string* reasoning);

 private:
  const std::string& awaited() const { return inside_ ? tags_.close : tags_.open; }
  void Emit(std::string_view piece, std::string* text, std::string* reasoning);

  const ReasoningMode mode_;
  const ReasoningTags tags_;
  bool inside_;               // between the tags
  bool after_close_ = false;  // only white space since the closing tag, which is dropped
  bool has_text_ = false;     // an answer has begun, or reasoning has ended
  bool reasoned_ = false;
  std::string held_;  // a proper beginning of the awaited tag
};

}  // namespace tutti::api
