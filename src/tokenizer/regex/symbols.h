// Symbols: numbers for classes of code points. Two code points that are in the same sets of an
// expression have one symbol.
//
// Immutable after Create; any thread. At most kMaxSymbols symbols, numbered from 0, and one more,
// edge(), for the start and the end of a text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/utf8.h"
#include "tokenizer/regex/syntax.h"

namespace tutti::tokenizer::regex {

using Symbol = uint8_t;

inline constexpr size_t kMaxSymbols = 254;

class Symbols {
 public:
  // Errors: tokenizer_limit.
  static Result<Symbols> Create(std::span<const CharSet> sets);

  size_t count() const { return count_; }  // without edge()
  Symbol edge() const { return static_cast<Symbol>(count_); }

  Symbol OfAscii(unsigned char byte) const { return ascii_[byte]; }
  Symbol Of(char32_t c) const {
    return blocks_[size_t{block_[c >> kBlockBits]} << kBlockBits | (c & (kBlockSize - 1))];
  }
  // The symbol of a byte that is not UTF-8: that of an unassigned code point.
  Symbol OfInvalid() const { return invalid_; }

  // Whether a set, by its place in `sets`, holds a symbol, edge() included.
  bool Holds(size_t set, size_t symbol) const { return members_[set][symbol]; }

 private:
  static constexpr int kBlockBits = 7;
  static constexpr size_t kBlockSize = size_t{1} << kBlockBits;

  size_t count_ = 0;
  std::array<Symbol, 128> ascii_{};
  Symbol invalid_ = 0;
  std::vector<uint16_t> block_;  // of a code point's upper bits: its place in blocks_
  std::vector<Symbol> blocks_;
  std::vector<std::vector<bool>> members_;
};

}  // namespace tutti::tokenizer::regex
