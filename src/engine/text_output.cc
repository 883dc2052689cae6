#include "engine/text_output.h"

namespace tutti::engine {

std::optional<size_t> TextOutput::Push(TokenId token, std::string& out) {
  bytes_.clear();
  characters_.clear();
  // `first` is false even for the first output token: it continues the prompt, so a leading space
  // belongs to the model's output.
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
