#include "engine/text_output.h"

namespace tutti::engine {

std::optional<size_t> TextOutput::Push(TokenId token, std::string& out) {
  bytes_.clear();
  characters_.clear();
  // Never the first token of a text, but one that continues the prompt: a leading space is the
  // model's own.
  text_->AppendBytes(token, /*first=*/false, skip_special_, bytes_);
  repair_.Push(bytes_, characters_);
  if (++tokens_ < min_tokens_) {
    out.append(characters_);
    return std::nullopt;
  }
  return matcher_.Push(characters_, out);
}

void TextOutput::Finish(std::string& out) {
  matcher_.Finish(out);
  repair_.Finish(out);
}

}  // namespace tutti::engine
