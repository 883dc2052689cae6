// Encoder: the part of a tokenizer that differs between model kinds: text without special tokens to
// ids.
//
// Immutable after construction; any thread. Refers to the Vocabulary given at construction, which
// outlives it.
#pragma once

#include <string_view>
#include <vector>

#include "base/types.h"

namespace tutti::tokenizer {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the ids of `text`, a stretch between special tokens. Any bytes; O(n log n).
  virtual void Encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
};

}  // namespace tutti::tokenizer
