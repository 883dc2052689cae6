// BPE by ranked merges: over the bytes of words, and over their characters.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/encoder.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

// ByteBpe: byte-level BPE (tokenizer.ggml.model = "gpt2"): merges the bytes of each word by rank.
//
// Immutable after Create(); any thread. Merging follows Hugging Face's tokenizers. A byte that the
// vocabulary has no token for becomes the unknown token, or is dropped where there is none. Words
// whose merging is known to end in one token are looked up; the others are merged (merge_table.h).
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
  StringTable words_;  // bytes -> token, for the tokens a lookup may answer with
};

struct CharacterBpeOptions {
  bool ignore_merges = false;
  bool byte_fallback = false;
  bool fuse_unknown = false;
  std::string continuing_prefix;
  std::string end_of_word_suffix;
};

// CharacterBpe: BPE over characters ("bpe"): merges the characters of each word by rank. The form
// of SentencePiece's BPE in a tokenizer.json (Llama 2, Mistral, Gemma, Phi 3), with byte fallback.
//
// Immutable after Create(); any thread. Follows the BPE model of Hugging Face tokenizers: the pair
// of lowest rank first, the leftmost of equals. A character that is no token becomes its bytes, or
// the unknown token, or nothing, depending on the file. Stretches that no token could bridge are
// merged separately: the result is the same, and most of them are a single look-up.
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
  std::vector<bool> is_own_merge_;  // by token: merging its characters ends in it alone
  StretchCutter stretches_;
  bool spells_bytes_ = false;  // byte_token_ is complete
  std::array<TokenId, 256> byte_token_{};
};

}  // namespace tutti::tokenizer
