// CharacterBpe: BPE over characters ("bpe"): merges the characters of each word by rank. The form
// of SentencePiece's BPE in a tokenizer.json (Llama 2, Mistral, Gemma, Phi 3), with byte fallback.
//
// Immutable after Create(); any thread. Follows the BPE model of Hugging Face tokenizers: the pair
// of lowest rank first, the leftmost of equals. A character that is no token becomes its bytes, or
// the unknown token, or nothing, depending on the file. Stretches that no token could bridge are
// merged separately: the result is the same, and most of them are a single look-up.
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
#include "tokenizer/stretch_cutter.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

struct CharacterBpeOptions {
  bool ignore_merges = false;
  bool byte_fallback = false;
  bool fuse_unknown = false;
  std::string continuing_prefix;
  std::string end_of_word_suffix;
};

class CharacterBpe final : public Encoder {
 public:
  // `vocabulary` must outlive the encoder. Errors: tokenizer_invalid, tokenizer_limit.
  static Result<std::unique_ptr<const Encoder>> Create(const Vocabulary& vocabulary,
                                                       const std::vector<std::string>& merges,
                                                       CharacterBpeOptions options);

  void Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
              std::vector<TokenId>& ids) const override;
  size_t unusable_merges() const override { return merges_.unusable(); }

 private:
  using Scratch = MergeTable::Scratch;
  class Words;

  CharacterBpe(const Vocabulary& vocabulary, CharacterBpeOptions options)
      : vocabulary_(vocabulary), options_(std::move(options)) {}
  Status IndexTokens();
  TokenId FindToken(std::string_view spelling) const;
  void EncodeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;
  void EncodeStretch(std::string_view text, bool is_word, bool& after_unknown, Scratch& scratch,
                     std::vector<TokenId>& ids) const;
  void AddSymbols(std::string_view text, bool is_word, bool& after_unknown, Scratch& scratch) const;

  const Vocabulary& vocabulary_;
  const CharacterBpeOptions options_;
  MergeTable merges_;
  StringTable tokens_;              // spelling -> token, for the tokens that text can become
  size_t longest_ = 0;              // bytes of the longest of them
  std::vector<bool> is_own_merge_;  // by token: merging its characters ends in it alone
  StretchCutter stretches_;
  bool spells_bytes_ = false;  // byte_token_ is complete
  std::array<TokenId, 256> byte_token_{};
};

}  // namespace tutti::tokenizer
