// WordPiece (tokenizer.ggml.model = "bert"), exactly as Hugging Face's BertNormalizer,
// BertPreTokenizer and WordPiece do it: clean, set ideographs apart, strip accents, lowercase, cut
// at spaces and punctuation, then the longest token at each place.
//
// Immutable after Create(); any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/encoder.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

struct WordPieceOptions {
  bool own_words = true;  // BERT's own normalizer and words; false: those of the file's steps
  bool lowercase = true;  // of the own normalizer
  bool strip_accents = true;
  std::string continuing_prefix = "##";
  size_t max_word_characters = 100;  // longer words are unknown
};

class WordPiece final : public Encoder {
 public:
  // `vocabulary` must outlive the encoder. Errors: tokenizer_limit.
  static Result<std::unique_ptr<const Encoder>> Create(const Vocabulary& vocabulary,
                                                       WordPieceOptions options);

  void Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
              std::vector<TokenId>& ids) const override;

 private:
  struct Node {
    TokenId id = kNoToken;  // the token spelled by the path to here
  };

  WordPiece(const Vocabulary& vocabulary, WordPieceOptions options)
      : vocabulary_(vocabulary), options_(std::move(options)) {}
  Status IndexTokens();
  Status Insert(int32_t root, std::string_view spelling, TokenId id);
  void EncodeOwnWords(std::string_view text, std::vector<TokenId>& ids) const;
  void EncodeWord(std::string_view word, size_t characters, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  const WordPieceOptions options_;
  std::vector<Node> nodes_;  // a trie; node 0 begins words, node 1 their continuations
  PairTable children_;       // (node, byte) -> (node, unused)
};

}  // namespace tutti::tokenizer
