// Byte-level BPE (tokenizer.ggml.model = "gpt2"): merges the bytes of each word by rank.
//
// Immutable after Create(); any thread. Merging follows Hugging Face's tokenizers. A byte that the
// vocabulary has no token for becomes the unknown token, or is dropped where there is none. Words
// whose merging is known to end in one token are looked up; the others are merged (merge_table.h).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/encoder.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

class ByteBpe final : public Encoder {
 public:
  // `vocabulary` must outlive the encoder. `ignore_merges`: a word that is a token needs no
  // merging. Errors: tokenizer_invalid (merges of unknown pieces), tokenizer_limit.
  static Result<std::unique_ptr<const Encoder>> Create(const Vocabulary& vocabulary,
                                                       const std::vector<std::string>& merges,
                                                       bool ignore_merges);

  void Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
              std::vector<TokenId>& ids) const override;
  size_t unusable_merges() const override { return merges_.unusable(); }

 private:
  using Scratch = MergeTable::Scratch;
  class Words;

  ByteBpe(const Vocabulary& vocabulary, bool ignore_merges)
      : vocabulary_(vocabulary), ignore_merges_(ignore_merges) {}
  Status FindBytes(const std::vector<std::string>& merges);
  Status IndexWords();
  void EncodeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;
  void MergeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;
  TokenId FindWord(std::string_view word) const;

  const Vocabulary& vocabulary_;
  const bool ignore_merges_;
  std::array<TokenId, 256> byte_token_{};
  MergeTable merges_;
  StringTable words_;        // bytes -> token, for the tokens a lookup may answer with
  size_t longest_word_ = 0;  // bytes of the longest key of words_
};

}  // namespace tutti::tokenizer
