// Byte-level BPE (tokenizer.ggml.model = "gpt2"): pre-tokenise, then merge the bytes of each word
// by rank.
//
// Immutable after Create(); any thread. Merging follows Hugging Face's tokenizers: always the pair
// of lowest rank, the leftmost of equals. A byte that the vocabulary has no token for is dropped
// before merging. Words whose merging is known to end in one token are looked up; other short ones
// are merged by scanning, long ones by a MergeList in O(n log n).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/encoder.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

class ByteBpe final : public Encoder {
 public:
  // `vocabulary` must outlive the encoder. Errors: tokenizer_unsupported (pre-tokenizer, by name),
  // tokenizer_invalid (merges of unknown pieces), tokenizer_limit.
  // `ignore_merges` absent: as the pre-tokenizer's family does.
  static Result<std::unique_ptr<const Encoder>> Create(const Vocabulary& vocabulary,
                                                       const std::vector<std::string>& merges,
                                                       std::optional<bool> ignore_merges);

  void Encode(std::string_view text, std::vector<TokenId>& ids) const override;

 private:
  // What merging works on, reused from word to word within one call.
  struct Scratch;
  class Words;

  ByteBpe(const Vocabulary& vocabulary, PreTokenizer pre) : vocabulary_(vocabulary), pre_(pre) {}
  Status TakeMerges(const std::vector<std::string>& merges);
  Status IndexWords();
  void EncodeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;
  void MergeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;
  void MergeShort(Scratch& scratch) const;
  void MergeLong(Scratch& scratch, std::vector<TokenId>& ids) const;
  TokenId FindWord(std::string_view word) const;

  const Vocabulary& vocabulary_;
  const PreTokenizer pre_;
  bool ignore_merges_ = false;  // a word that is a token needs no merging (llama3)
  std::array<TokenId, 256> byte_token_{};
  std::vector<bool> is_merged_;  // by token, while loading: some merge makes it
  PairTable merges_;             // (left, right) -> (rank, merged)
  StringTable words_;            // bytes -> token, for the tokens a lookup may answer with
  size_t longest_word_ = 0;      // bytes of the longest key of words_
};

}  // namespace tutti::tokenizer
