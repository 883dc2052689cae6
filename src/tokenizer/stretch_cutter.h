// StretchCutter: cuts a text between any two characters that are adjacent in no token. No merge
// crosses such a place, so that each stretch is merged, or looked up, by itself. For both kinds of
// BPE over characters.
//
// Filled while a tokenizer is made, then immutable and shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/flat_table.h"

namespace tutti::tokenizer {

class StretchCutter {
 public:
  // Adds the pairs of adjacent characters of a token's text. False if the table is made to collide.
  bool Add(std::string_view token) {
    int32_t left = -1;
    for (size_t at = 0; at < token.size() && cuts_;) {
      const CodePoint c = DecodeAt(token, at);
      const int32_t right = CharacterNumber(c, token[at]);
      at += c.length;
      if (left >= 0) {
        switch (neighbours_.Insert(PairTable::Key(left, right), {})) {
          case Inserted::kNew:
            cuts_ = ++count_ < kMaxNeighbours;
            break;
          case Inserted::kDuplicate:
            break;
          case Inserted::kTooManyProbes:
            return false;
        }
      }
      left = right;
    }
    return true;
  }

  // Where a merge may cross any place: a text is one stretch.
  void Stop() { cuts_ = false; }
  // False: a text is one stretch, because the function above was called or there were too many
  // pairs.
  bool cuts() const { return cuts_; }

  // Calls `sink` with each stretch of `text`, in order and at least once. Stretches have about
  // 2^30 bytes at most, so that places in them fit 32 bits.
  template <typename Sink>
  void Cut(std::string_view text, const Sink& sink) const {
    size_t begin = 0;
    int32_t left = -1;
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = DecodeAt(text, at);
      const int32_t right = CharacterNumber(c, text[at]);
      const bool bridged =
          !cuts_ || (left >= 0 && neighbours_.Find(PairTable::Key(left, right)) != nullptr);
      if (at > begin && (!bridged || at - begin >= kLongestStretch)) {
        sink(text.substr(begin, at - begin));
        begin = at;
      }
      left = right;
      at += c.length;
    }
    sink(text.substr(begin));
  }

 private:
  static constexpr size_t kLongestStretch = size_t{1} << 30;
  static constexpr size_t kMaxNeighbours = size_t{1} << 20;

  // A distinct number for each code point, and for each byte that is no valid UTF-8.
  static int32_t CharacterNumber(const CodePoint& c, char first_byte) {
    if (c.valid) return static_cast<int32_t>(c.code_point);
    return 0x110000 + static_cast<unsigned char>(first_byte);
  }

  PairTable neighbours_;
  size_t count_ = 0;
  bool cuts_ = true;
};

}  // namespace tutti::tokenizer
