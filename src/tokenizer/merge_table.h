// MergeTable: the ranked merges of a BPE model, and the merging of a word's symbols by them.
//
// Immutable after Create(); any thread, with a Scratch of its own. Always the pair of lowest rank
// is merged, the leftmost of equals, as in Hugging Face tokenizers: O(n log n) in the symbols.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

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
