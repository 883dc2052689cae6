#include "api/reasoning_filter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::api {

std::optional<ReasoningMode> ParseReasoningMode(std::string_view word) {
  if (word == "keep") return ReasoningMode::kKeep;
  if (word == "hide") return ReasoningMode::kHide;
  if (word == "separate") return ReasoningMode::kSeparate;
  return std::nullopt;
}

ReasoningFilter::ReasoningFilter(ReasoningMode mode, ReasoningTags tags)
    : mode_(mode), tags_(std::move(tags)), inside_(tags_.begins_inside) {
  CHECK(!tags_.open.empty() && !tags_.close.empty());
}

void ReasoningFilter::Push(std::string_view delta, std::string* text, std::string* reasoning) {
  reasoned_ = false;
  if (mode_ == ReasoningMode::kKeep) {
    text->append(delta);
    return;
  }
  while (!delta.empty()) {
    if (tags_.leading && has_text_ && !inside_) {
      Emit(std::exchange(held_, {}), text, reasoning);
      Emit(delta, text, reasoning);
      return;
    }
    if (held_.empty()) {  // nothing is open: all before a first character of the tag is plain
      const size_t plain = std::min(delta.find(awaited().front()), delta.size());
      Emit(delta.substr(0, plain), text, reasoning);
      delta.remove_prefix(plain);
      if (delta.empty()) return;
    }
    held_ += delta.front();
    delta.remove_prefix(1);
    // The longest end of what is held that the tag begins with is still open.
    size_t gone = 0;
    while (!awaited().starts_with(std::string_view(held_).substr(gone))) ++gone;
    Emit(std::string_view(held_).substr(0, gone), text, reasoning);
    held_.erase(0, gone);
    if (held_ != awaited()) continue;
    held_.clear();
    has_text_ = inside_;
    after_close_ = inside_ && !tags_.keep_space;
    inside_ = !inside_;
  }
}

void ReasoningFilter::Finish(std::string* text, std::string* reasoning) {
  Emit(std::exchange(held_, {}), text, reasoning);
}

void ReasoningFilter::Emit(std::string_view piece, std::string* text, std::string* reasoning) {
  if (inside_) {
    reasoned_ = reasoned_ || piece.find_first_not_of(" \t\r\n") != std::string_view::npos;
    if (mode_ == ReasoningMode::kSeparate) reasoning->append(piece);
    return;
  }
  if (after_close_) {
    const size_t first = piece.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return;
    piece.remove_prefix(first);
    after_close_ = false;
  }
  has_text_ = has_text_ || piece.find_first_not_of(" \t\r\n") != std::string_view::npos;
  text->append(piece);
}

}  // namespace tutti::api
