// ReasoningFilter: what a model thinks aloud between two tags, kept, hidden or separate from its
// answer, while the text streams.
//
// A tag may be split over deltas anywhere: what could still become one is held back, and comes out
// as text when it does not. However a text is cut into deltas, all that comes out is the same.
// Reasoning that is never closed lasts to the end of the text. A closing tag alone is text, and so
// is an opening tag within reasoning. White space after a closing tag is dropped, so that an answer
// does not begin with blank lines. Pure value; one owner at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::api {

enum class ReasoningMode {
  kKeep,      // the text passes as it is
  kHide,      // reasoning and its tags are removed
  kSeparate,  // reasoning comes out apart, without its tags
};
std::optional<ReasoningMode> ParseReasoningMode(std::string_view word);  // keep, hide, separate

struct ReasoningTags {
  std::string open = "<think>", close = "</think>";  // not empty
  bool begins_inside = false;  // the template has written the opening tag into the prompt
  // Reasoning stands before all text, and at most once: behind it tags are text. So it is where a
  // grammar constrains the answer, whose strings may hold tags.
  bool leading = false;
};

class ReasoningFilter {
 public:
  explicit ReasoningFilter(ReasoningMode mode, ReasoningTags tags = {});

  // What is ready now, appended to both; `reasoning` grows in mode kSeparate only.
  void Push(std::string_view delta, std::string* text, std::string* reasoning);
  bool inside() const { return inside_; }  // what comes next is reasoning
  // The last Push() held reasoning other than white space, whether it is shown or not.
  bool reasoned() const { return reasoned_; }
  // The end of the text: what was held back comes out.
  void Finish(std::string* text, std::string* reasoning);

 private:
  const std::string& awaited() const { return inside_ ? tags_.close : tags_.open; }
  void Emit(std::string_view piece, std::string* text, std::string* reasoning);

  const ReasoningMode mode_;
  const ReasoningTags tags_;
  bool inside_;               // between the tags
  bool after_close_ = false;  // nothing but white space since
  bool has_text_ = false;     // an answer has begun, or reasoning has ended
  bool reasoned_ = false;
  std::string held_;  // a proper beginning of the awaited tag
};

}  // namespace tutti::api
