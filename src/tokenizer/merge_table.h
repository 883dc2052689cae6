// The merging of BPE: StretchCutter cuts a text where no merge crosses, MergeList merges the
// symbols of a word, and MergeTable holds a model's ranked merges and merges by them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "base/utf8.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

// StretchCutter: cuts a text between any two characters that are adjacent in no token. No merge
// crosses such a place, so that each stretch is merged, or looked up, by itself. For both kinds of
// BPE over characters.
//
// Filled while a tokenizer is made, then immutable and shared.
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

// Positions 0 to size - 1 with a key each; finds the first of the least keys.
template <typename Key>
class MinTree {
 public:
  static constexpr Key kNever = std::numeric_limits<Key>::max();  // greater than any other key

  // The keys of positions 0 to count - 1, all kNever; to be filled in, and then Build().
  std::vector<Key>& Reset(size_t count) {
    levels_ = 1;
    level_[0].assign(count, kNever);
    return level_[0];
  }
  // Builds the minima above the keys.
  void Build() {
    size_t width = level_[0].size();
    PadToGroup(level_[0]);
    while (width > kFanOut) {
      const std::vector<Key>& below = level_[levels_ - 1];
      width = below.size() / kFanOut;
      std::vector<Key>& above = level_[levels_++];
      above.resize(width);
      for (size_t i = 0; i < width; ++i) above[i] = GroupMin(below, i);
      PadToGroup(above);
    }
  }

  Key At(size_t position) const { return level_[0][position]; }

  void Set(size_t position, Key key) {
    for (size_t l = 0;; ++l) {
      std::vector<Key>& level = level_[l];
      const Key old = level[position];
      level[position] = key;
      if (l + 1 == levels_) return;
      const size_t group = position / kFanOut;
      const Key group_min = level_[l + 1][group];
      if (key >= group_min) {
        if (old != group_min) return;  // the group's minimum is another entry
        key = GroupMin(level, group);
        if (key == group_min) return;
      }
      position = group;
    }
  }

  // The least key, and the first position that has it; kNever when all have.
  Key FindMin(size_t* position) const {
    const std::vector<Key>& top = level_[levels_ - 1];
    const Key least = GroupMin(top, 0);
    size_t at = 0;
    for (size_t l = levels_; l-- > 0;) {
      at *= kFanOut;
      while (level_[l][at] != least) ++at;
    }
    *position = at;
    return least;
  }

 private:
  static constexpr size_t kFanOut = 16;
  static constexpr size_t kMaxLevels = 8;  // 16^8 positions

  static void PadToGroup(std::vector<Key>& level) {
    level.resize(std::max((level.size() + kFanOut - 1) / kFanOut, size_t{1}) * kFanOut, kNever);
  }
  static Key GroupMin(const std::vector<Key>& level, size_t group) {
    const Key* keys = level.data() + group * kFanOut;
    Key least = keys[0];
    for (size_t i = 1; i < kFanOut; ++i) least = keys[i] < least ? keys[i] : least;
    return least;
  }

  std::array<std::vector<Key>, kMaxLevels> level_;
  size_t levels_ = 0;
};

// MergeList: merges adjacent symbols of a word, always the pair with the least key, the leftmost of
// equals, until no pair may merge. The one algorithm behind both kinds of BPE.
//
// O(n log n) for any word and any keys: a linked list of symbols, and over the keys of the pairs a
// tree of minima with a fan-out of 16. A tree beats the usual priority queue here: it holds no
// stale entries, and equal keys are taken in the order of memory. A value, reused from word to
// word; not for two threads at once.
template <typename Key>
class MergeList {
 public:
  static constexpr Key kNever = MinTree<Key>::kNever;

  // The result of merging two adjacent pieces; key kNever: they do not merge.
  struct Pair {
    Key key = kNever;
    TokenId merged = kNoToken;
  };

  // The symbols before merging; index = place in the word. At most 2^31 of them.
  std::vector<TokenId>& symbols() { return symbols_; }

  // `look(left, right, end)` returns the Pair of the adjacent symbols at indices `left` and
  // `right`; `end` is the index behind the right one. It may read symbols().
  template <typename Look>
  void Merge(const Look& look) {
    const size_t count = symbols_.size();
    if (count < 2) {
      next_.assign(count, 1);
      return;
    }
    next_.resize(count);
    previous_.resize(count);
    merged_.resize(count);
    std::vector<Key>& keys = tree_.Reset(count);
    for (size_t i = 0; i < count; ++i) {
      next_[i] = static_cast<uint32_t>(i + 1);
      previous_[i] = static_cast<uint32_t>(i == 0 ? 0 : i - 1);
    }
    for (size_t i = 0; i + 1 < count; ++i) {
      const Pair pair = look(i, i + 1, i + 2);
      keys[i] = pair.key;
      merged_[i] = pair.merged;
    }
    tree_.Build();
    const auto look_again = [&](size_t left) {
      const size_t right = next_[left];
      Pair pair;
      if (right < count) pair = look(left, right, next_[right]);
      merged_[left] = pair.merged;
      tree_.Set(left, pair.key);
    };
    size_t left = 0;
    while (tree_.FindMin(&left) != kNever) {
      const size_t right = next_[left];
      const size_t end = next_[right];
      symbols_[left] = merged_[left];
      next_[left] = static_cast<uint32_t>(end);
      if (end < count) previous_[end] = static_cast<uint32_t>(left);
      tree_.Set(right, kNever);
      look_again(left);
      if (left > 0) look_again(previous_[left]);
    }
  }

  // After Merge(): the symbols that are left are at 0, Next(0), ... below symbols().size().
  size_t Next(size_t index) const { return next_[index]; }

 private:
  std::vector<TokenId> symbols_;
  std::vector<uint32_t> next_;      // index of the symbol to the right, or the count
  std::vector<uint32_t> previous_;  // index of the symbol to the left
  std::vector<TokenId> merged_;     // result of merging a symbol with the one to its right
  MinTree<Key> tree_;
};

// MergeTable: the ranked merges of a BPE model, and the merging of a word's symbols by them.
//
// Immutable after Create(); any thread, with a Scratch of its own. Always the pair of lowest rank
// is merged, the leftmost of equals, as in Hugging Face tokenizers: O(n log n) in the symbols.
class MergeTable {
 public:
  MergeTable() = default;
  // `merges` as in TokenizerSpec. `prefix`: the right piece of a merge begins with it and the
  // merged token does not (continuing_prefix). A merge that would make a control or unknown token
  // is left out: text must not spell those. Errors: tokenizer_invalid, tokenizer_limit.
  static Result<MergeTable> Create(const Vocabulary& vocabulary,
                                   const std::vector<std::string>& merges, std::string_view prefix);

  class Scratch {
   public:
    // The symbols of a word before merging; after Merge() those that are left.
    std::vector<TokenId> symbols;

   private:
    friend class MergeTable;
    static constexpr size_t kShort = 32;
    std::array<PairTable::Value, kShort> pairs_;  // short words only: symbol i with i + 1
    MergeList<int32_t> list_;                     // long words only
  };

  void Merge(Scratch& scratch) const;

  // Merges that were left out as a piece of theirs is no token.
  size_t unusable() const { return unusable_; }
  // Whether some merge makes the token, or takes it as a piece. Tokens of the vocabulary only.
  bool IsMerged(TokenId id) const { return is_merged_[static_cast<size_t>(id)]; }
  bool IsPiece(TokenId id) const { return is_piece_[static_cast<size_t>(id)]; }

 private:
  void MergeShort(Scratch& scratch) const;
  void MergeLong(Scratch& scratch) const;

  PairTable merges_;  // (left, right) -> (rank, merged)
  std::vector<bool> is_merged_;
  std::vector<bool> is_piece_;
  size_t unusable_ = 0;
};

}  // namespace tutti::tokenizer
