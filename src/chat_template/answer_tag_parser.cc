#include "chat_template/answer_tag_parser.h"

#include <utility>

#include "grammar/json_text.h"

namespace tutti::chat_template {

AnswerTagParser::AnswerTagParser(Tags tags, std::unique_ptr<api::OutputParser> inner)
    : tags_(std::move(tags)),
      inner_(std::move(inner)),
      stage_(tags_.opened ? Stage::kInside : Stage::kBefore) {}

std::string_view AnswerTagParser::awaited() const {
  if (stage_ == Stage::kBefore) return tags_.open;
  return stage_ == Stage::kInside ? tags_.close : std::string_view();
}

void AnswerTagParser::Push(std::string_view delta, api::StreamEvent* event) {
  std::string text;
  for (const char c : delta) Take(c, &text);
  Forward(text, event);
}

void AnswerTagParser::Take(char c, std::string* text) {
  held_ += c;
  while (!held_.empty() && !awaited().starts_with(held_)) {
    Emit(held_.front(), text);
    held_.erase(0, 1);
  }
  if (held_.empty() || held_ != awaited()) return;
  if (tags_.keep_space && stage_ == Stage::kInside) *text += std::exchange(space_, {});
  // Text after a closing tag shows that the tag was part of the text. After the markers of tool
  // calls the tag is known to be one.
  if (stage_ == Stage::kInside && inner_ == nullptr) closing_ = space_ + held_;
  held_.clear();
  space_.clear();
  behind_tag_ = stage_ != Stage::kBefore || !tags_.keep_space;
  stage_ = stage_ == Stage::kBefore ? Stage::kInside : Stage::kAfter;
}

void AnswerTagParser::Emit(char c, std::string* text) {
  if (!closing_.empty()) {
    closing_ += c;
    if (grammar::IsJsonSpace(c)) return;
    behind_tag_ = false;
    *text += std::exchange(closing_, {});
    stage_ = Stage::kInside;
    return;
  }
  if (grammar::IsJsonSpace(c) && stage_ != Stage::kPlain) {
    if (!behind_tag_) space_ += c;
    return;
  }
  behind_tag_ = false;
  if (stage_ == Stage::kBefore) stage_ = Stage::kPlain;
  *text += std::exchange(space_, {});
  *text += c;
}

void AnswerTagParser::Forward(std::string_view text, api::StreamEvent* event) {
  if (inner_ != nullptr) {
    inner_->Push(text, event);
  } else {
    event->text += text;
  }
}

void AnswerTagParser::Finish(api::StreamEvent* event) {
  std::string text;
  for (const char c : std::exchange(held_, {})) Emit(c, &text);
  if (stage_ != Stage::kAfter) text += std::exchange(space_, {});
  Forward(text, event);
  if (inner_ != nullptr) inner_->Finish(event);
}

}  // namespace tutti::chat_template
