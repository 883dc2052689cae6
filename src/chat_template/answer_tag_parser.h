// AnswerTagParser: takes the tags around an answer out of its text while it streams, such as
// <response> and </response>, and the white space at their sides.
//
//   kBefore --open--> kInside --close--> kAfter
//      |
//      +--any other text--> kPlain
//
// An answer that does not begin with the opening tag is passed on unchanged. A closing tag that is
// followed by text is itself text, and the answer continues, since a JSON string may contain it.
// One object for each answer; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/output_parser.h"
#include "api/types.h"

namespace tutti::chat_template {

class AnswerTagParser final : public api::OutputParser {
 public:
  struct Tags {
    std::string open, close;  // not empty
    bool opened = false;      // the prompt ends within the answer
    // White space at the tags' inner sides belongs to the answer.
    bool keep_space = false;
  };
  // `inner` reads the text between the tags; null: it is passed on as text.
  AnswerTagParser(Tags tags, std::unique_ptr<api::OutputParser> inner);

  void Push(std::string_view delta, api::StreamEvent* event) override;
  void Finish(api::StreamEvent* event) override;

 private:
  enum class Stage : uint8_t { kBefore, kInside, kAfter, kPlain };

  std::string_view awaited() const;
  void Take(char c, std::string* text);
  void Emit(char c, std::string* text);
  void Forward(std::string_view text, api::StreamEvent* event);

  const Tags tags_;
  const std::unique_ptr<api::OutputParser> inner_;
  Stage stage_;
  bool behind_tag_ = false;  // nothing but white space since
  std::string held_;         // a proper beginning of the awaited tag
  std::string space_;        // white space that a tag would drop
  std::string closing_;      // the closing tag with the white space around it, at the end so far
};

}  // namespace tutti::chat_template
