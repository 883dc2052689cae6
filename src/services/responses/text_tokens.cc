#include "services/responses/text_tokens.h"

#include <iterator>
#include <string>
#include <utility>

namespace tutti::responses {

void TextTokens::Add(const api::StreamEvent& event) {
  if (!event.reasoning.empty()) Drop();
  if (!event.logprobs.has_value()) return;
  if (!event.reasoning.empty() && event.text.empty()) return;
  held_.push_back(*event.logprobs);
}

std::vector<api::TokenLogprobs> TextTokens::Take(std::string_view text) {
  std::string drawn;
  for (const api::TokenLogprobs& token : held_) drawn += token.chosen.bytes;
  // Behind reasoning the text is searched from the end, because a tag may contain it, and otherwise
  // from the beginning, because what is held back may.
  const bool behind_other = std::exchange(behind_other_, false);
  const size_t begin = behind_other ? drawn.rfind(text) : drawn.find(text);
  // Text that was repaired, as of bytes that are no UTF-8, is not found: all tokens belong to it.
  if (begin == std::string::npos) return std::exchange(held_, {});
  const size_t end = begin + text.size();
  std::vector<api::TokenLogprobs> taken, left;
  size_t at = 0;
  for (api::TokenLogprobs& token : held_) {
    const size_t token_begin = std::exchange(at, at + token.chosen.bytes.size());
    if (token_begin >= end) {
      left.push_back(std::move(token));
    } else if (at > begin) {
      taken.push_back(std::move(token));
    }
  }
  held_ = std::move(left);
  return taken;
}

void TextTokens::Drop() {
  held_.clear();
  behind_other_ = true;
}

}  // namespace tutti::responses
