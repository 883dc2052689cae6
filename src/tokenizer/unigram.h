// Unigram: SentencePiece's unigram model (tokenizer.ggml.model = "t5"), as Hugging Face's
// tokenizers implement it: cuts each word into the pieces with the highest sum of scores.
//
// Immutable after Create; any thread. Time: a step per byte of the text and byte of the longest
// piece that begins there, which is short (kMaxPieceBytes); memory: some 20 bytes per byte of the
// longest word. Source: Kudo 2018, "Subword Regularization"; Viterbi's algorithm, of equal sums the
// one found first, scores in float64. A character that no piece begins with costs 10 more than the
// worst piece; adjacent ones become one unknown token, or their bytes if the model uses byte
// fallback.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tokenizer/encoder.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

// A compact trie that maps strings to ids byte by byte, for vocabularies of a quarter of a million
// pieces.
//
// Immutable after Create; any thread. A node has its children side by side, ordered by byte.
class ByteTrie {
 public:
  static constexpr int32_t kRoot = 0, kNone = -1;

  // The strings are not kept. Of equal ones the greatest id counts, as in Hugging Face's
  // tokenizers. Errors: tokenizer_limit.
  static Result<ByteTrie> Create(std::vector<std::pair<std::string_view, TokenId>> strings);

  // The child of `node` for a byte, or kNone.
  int32_t Next(int32_t node, unsigned char byte) const;
  // Id of the string that ends in `node`; kNoToken where none does.
  TokenId id(int32_t node) const { return nodes_[static_cast<size_t>(node)].id; }

 private:
  struct Node {
    int32_t first_child = 0;
    uint16_t children = 0;
    unsigned char byte = 0;  // that leads here
    TokenId id = kNoToken;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

inline constexpr size_t kMaxPieceBytes = 256;  // of a unigram's piece: bounds a step

class Unigram final : public Encoder {
 public:
  // `vocabulary` outlives it. Errors: tokenizer_invalid (a score that is no number),
  // tokenizer_limit. `scores`: of the tokens from 0 on; those behind are not pieces.
  static Result<std::unique_ptr<const Encoder>> Create(const Vocabulary& vocabulary,
                                                       std::vector<double> scores,
                                                       bool byte_fallback);

  void Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
              std::vector<TokenId>& ids) const override;

 private:
  struct Best;     // the best way to a place in a word
  struct Scratch;  // of one call

  Unigram(const Vocabulary& vocabulary, std::vector<double> scores)
      : vocabulary_(vocabulary), scores_(std::move(scores)) {}
  Status IndexPieces();
  void EncodeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;
  void AppendUnknown(std::string_view text, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  const std::vector<double> scores_;
  ByteTrie pieces_;
  std::array<TokenId, 256> byte_token_{};  // all, or none where bytes are not spelled
  bool spells_bytes_ = false;
  double unknown_score_ = 0;
};

}  // namespace tutti::tokenizer
