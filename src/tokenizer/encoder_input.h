// EncoderInput: the tokens of a text, or of a pair of texts, for an encoder model: with special
// tokens, a type for every token, and truncated to the model's length.
//
// Plain values and pure functions; any thread. Tokenizer::EncodeInput and EncodePair make them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

// The end at which a text that is too long is truncated.
enum class CutSide : uint8_t {
  kRight,  // keep the beginning
  kLeft,   // keep the end
};

struct InputOptions {
  bool parse_special = true;  // as EncodeOptions; encoders' reference implementations do
  // Limit of the result, special tokens included. Special tokens are always kept, so the result has
  // at least them.
  int max_tokens = std::numeric_limits<int>::max();
  CutSide cut = CutSide::kRight;
};

struct EncoderInput {
  std::vector<TokenId> ids;
  std::vector<uint8_t> types;  // as many; empty: all 0
  size_t whole = 0;            // tokens before cutting, special ones included
};

// To how many tokens two texts of `first` and `second` are cut so that `room` holds both: the
// longer one loses until both are equally long, then both lose. Source: "longest_first" of Hugging
// Face tokenizers.
std::pair<size_t, size_t> CutLongestFirst(size_t first, size_t second, size_t room);

// Puts the texts' ids in their places of the frame, cut according to the options. A frame of one
// text uses only `first`.
EncoderInput FillFrame(std::span<const FramePlace> frame, std::span<const TokenId> first,
                       std::span<const TokenId> second, const InputOptions& options);

}  // namespace tutti::tokenizer
