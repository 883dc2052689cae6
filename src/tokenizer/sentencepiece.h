// SentencePiece-style BPE (tokenizer.ggml.model = "llama"): merges characters by token score.
//
// Immutable after Create(); any thread. Always merges the pair whose token scores highest, the
// leftmost of equals. A remaining symbol that is no token falls back to its bytes. Spaces count as
// U+2581, and one is put before each stretch of text if the model requires it. Control, unknown and
// byte tokens are never merged into, so text cannot spell them. Stretches that no token could
// bridge are merged separately, which leaves the result as it is and keeps most of them a single
// look-up. Source: SentencePiece's bpe_model (Kudo and Richardson, 2018).
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/encoder.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

class SentencePiece final : public Encoder {
 public:
  // `vocabulary` must outlive the encoder. Errors: tokenizer_limit.
  static Result<std::unique_ptr<const Encoder>> Create(const Vocabulary& vocabulary);

  // Marks spaces itself; `splitter` is not used.
  void Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
              std::vector<TokenId>& ids) const override;

 private:
  struct Scratch;

  explicit SentencePiece(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  Status IndexTokens();
  TokenId FindToken(std::string_view spelling) const;
  void EncodeStretch(std::string_view text, Scratch& scratch, std::vector<TokenId>& ids) const;
  void MergeStretch(std::string_view text, Scratch& scratch, std::vector<TokenId>& ids) const;
  void EmitBytes(std::string_view character, std::vector<TokenId>& ids) const;
  void TakeApart(std::string_view text, TokenId unused, const Scratch& scratch,
                 std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  StringTable tokens_;              // spelling -> token, for the tokens that text can become
  std::vector<bool> is_own_merge_;  // by token: merging its characters ends in it alone
  StretchCutter stretches_;
  std::array<TokenId, 256> byte_token_{};  // kNoToken where the model has none
};

}  // namespace tutti::tokenizer
