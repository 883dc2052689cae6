// TokenMask: the set of tokens of a vocabulary that may come next. Immutable; any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace tutti::grammar {

class TokenMask {
 public:
  explicit TokenMask(size_t vocabulary) : words_((vocabulary + 63) / 64) {}

  void Allow(TokenId id) { words_[Word(id)] |= Bit(id); }
  void Forbid(TokenId id) { words_[Word(id)] &= ~Bit(id); }
  bool Allows(TokenId id) const {
    return id >= 0 && Word(id) < words_.size() && (words_[Word(id)] & Bit(id)) != 0;
  }
  // Bit i % 64 of word i / 64 is that of token i.
  const std::vector<uint64_t>& words() const { return words_; }
  std::vector<uint64_t>& words() { return words_; }
  size_t Count() const {
    size_t count = 0;
    for (const uint64_t word : words_) count += static_cast<size_t>(std::popcount(word));
    return count;
  }

 private:
  static size_t Word(TokenId id) { return static_cast<size_t>(id) / 64; }
  static uint64_t Bit(TokenId id) { return uint64_t{1} << (static_cast<size_t>(id) % 64); }

  std::vector<uint64_t> words_;
};

}  // namespace tutti::grammar
