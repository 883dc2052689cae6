// TokenizerText: the tokenizer of a model as the engine's source of token bytes. Immutable; any
// thread.
#pragma once

#include <memory>
#include <utility>

#include "engine/token_text.h"
#include "tokenizer/tokenizer.h"

namespace tutti::gateway {

class TokenizerText final : public engine::TokenText {
 public:
  explicit TokenizerText(std::shared_ptr<const tokenizer::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  void AppendBytes(TokenId id, bool first, bool skip_special, std::string& bytes) const override {
    tokenizer_->AppendPiece(id, first, {.skip_special = skip_special, .strip_space_prefix = false},
                            bytes);
  }
  bool IsSpecial(TokenId id) const override {
    return tokenizer_->vocabulary().Contains(id) && tokenizer_->vocabulary().IsSpecial(id);
  }

 private:
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
};

}  // namespace tutti::gateway
