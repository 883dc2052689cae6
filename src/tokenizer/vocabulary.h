// Vocabulary: the tokens of one model: spelling, raw bytes, score, type, special ids and flags.
//
// Immutable after Create(); shared by any number of threads without locks. Ids are dense, 0 <= id <
// size().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::tokenizer {

// InfillTokens: the tokens that mark the prefix, the suffix and the middle of a text whose middle a
// model fills in (fill-in-the-middle, FIM). Found once, when a vocabulary is created.
struct InfillTokens {
  TokenId prefix = kNoToken;      // comes before the text in front of the hole
  TokenId suffix = kNoToken;      // comes before the text behind the hole
  TokenId middle = kNoToken;      // comes before the model's answer; kNoToken: no such token
  TokenId repository = kNoToken;  // comes before the name of a project; kNoToken: no such token
  TokenId file = kNoToken;        // comes before the name of a file; kNoToken: no such token
  TokenId pad = kNoToken;         // kNoToken: no such token
  bool suffix_first = false;  // the order is suffix, prefix, middle; else prefix, suffix, middle

  // All of them, without kNoToken. A model that writes one has filled the hole.
  std::vector<TokenId> All() const;
};

// Bounds of what a model file may ask for; beyond them the file is refused with tokenizer_limit.
inline constexpr size_t kMaxTokens = size_t{1} << 20;  // largest published vocabularies: 262,144
inline constexpr size_t kMaxMerges = size_t{1} << 22;  // about two merges per token in the largest
inline constexpr size_t kMaxTokenBytes = 4096;         // one token's spelling
inline constexpr size_t kMaxSpecialBytes = 512;  // a spelling that is searched for in the text
inline constexpr size_t kMaxVocabularyBytes = size_t{64} << 20;  // all spellings together

enum class ModelKind : uint8_t {
  kByteBpe,        // "gpt2": byte-level BPE with ranked merges
  kSentencePiece,  // "llama": BPE by scores, U+2581 for space, byte fallback
  kWordPiece,      // "bert"
  kUnigram,        // "t5": SentencePiece's unigram model, U+2581 for space
  kCharacterBpe,   // "bpe": BPE over characters with ranked merges, U+2581 for space
};

// kNoToken where the model has none.
struct SpecialIds {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId eot = kNoToken;
  TokenId eom = kNoToken;
  TokenId unk = kNoToken;
  TokenId sep = kNoToken;
  TokenId pad = kNoToken;
  TokenId cls = kNoToken;
  TokenId mask = kNoToken;
  TokenId fim_pre = kNoToken;
  TokenId fim_suf = kNoToken;
  TokenId fim_mid = kNoToken;
  TokenId fim_pad = kNoToken;
  TokenId fim_rep = kNoToken;
  TokenId fim_sep = kNoToken;
};

class Vocabulary {
 public:
  // Validates all but pre-tokenizer and merges, and moves the strings out of `spec`. Errors:
  // tokenizer_invalid (lists of unequal length, unknown type),
  // tokenizer_unsupported (model name), tokenizer_limit.
  // `behind_answer`: what the chat template writes behind an answer (TextBehindAnswer); a token
  // that it begins with ends a generation.
  static Result<Vocabulary> Create(TokenizerSpec& spec, std::string_view behind_answer = {});

  ModelKind kind() const { return kind_; }
  int32_t size() const { return static_cast<int32_t>(texts_.size()); }
  bool Contains(int64_t id) const { return id >= 0 && id < size(); }

  // The four below need Contains(id).
  std::string_view Text(TokenId id) const {
    return texts_[static_cast<size_t>(id)];
  }                                          // as in the file
  std::string_view Piece(TokenId id) const;  // the raw bytes of its text; may split a character
  float Score(TokenId id) const {
    return scores_.empty() ? 0.0F : scores_[static_cast<size_t>(id)];
  }
  TokenType Type(TokenId id) const { return types_[static_cast<size_t>(id)]; }

  // The token whose spelling in the file is exactly `text`, the lowest of several, or kNoToken.
  TokenId Find(std::string_view text) const;

  const SpecialIds& special() const { return special_; }
  // The tokens that mark a hole in a text for the model to fill; no value: it has no such tokens.
  const std::optional<InfillTokens>& infill() const { return infill_; }
  // The token of a BPE model for text that no token spells; kNoToken: none.
  TokenId unknown() const { return unknown_; }
  // True for every token after which a generation is over: eos, eot, eom, the file's further ends,
  // known spellings, and what the chat template writes behind an answer.
  bool IsEog(TokenId id) const { return Contains(id) && is_eog_[static_cast<size_t>(id)]; }
  const std::vector<TokenId>& eog_tokens() const { return eog_tokens_; }  // ascending
  // Structure, not text: dropped by decoding with skip_special. Control and unknown tokens.
  bool IsSpecial(TokenId id) const {
    return Contains(id) && (Type(id) == TokenType::kControl || Type(id) == TokenType::kUnknown);
  }

  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool add_space_prefix() const { return add_space_prefix_; }
  // Decoding drops the one space that encoding put before a text.
  bool decode_strips_space() const { return decode_strips_space_; }
  const std::string& continuing_prefix() const {
    return continuing_prefix_;
  }                                                // "##", of kWordPiece
  const std::string& pre() const { return pre_; }  // pre-tokenizer as named by the file
  // Oddities of the file that change no answer: sentences for the operator, at most a few.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  Vocabulary() = default;
  Status TakeTokens(TokenizerSpec& spec);
  Status TakeSpecialIds(const TokenizerSpec& spec);
  // Makes them control tokens where the file calls them text: no text that a user writes may
  // become one.
  void TakeInfillTokens();
  Status IndexTexts();
  void FillPieces(const TokenizerSpec& spec);
  // Finds the tokens that end a generation and makes them control tokens, even if the file gives
  // them another type: a prompt may contain them by their spelling, and an answer does not show
  // them.
  void FindEndOfGeneration(const TokenizerSpec& spec, std::string_view behind_answer);
  TokenId MarkerAtBegin(std::string_view text) const;

  ModelKind kind_ = ModelKind::kByteBpe;
  std::string pre_;
  std::vector<std::string> texts_;
  std::vector<float> scores_;          // empty, or one per token
  std::vector<TokenType> types_;       // one per token
  std::string pieces_;                 // all pieces, back to back
  std::vector<uint32_t> piece_start_;  // size() + 1 offsets into pieces_
  StringTable by_text_;                // spelling -> id
  SpecialIds special_;
  std::optional<InfillTokens> infill_;
  std::vector<bool> is_eog_;
  std::vector<TokenId> eog_tokens_;
  bool add_bos_ = false;
  bool add_eos_ = false;
  bool add_space_prefix_ = false;
  bool decode_strips_space_ = false;
  TokenId unknown_ = kNoToken;
  std::string continuing_prefix_;
  std::vector<std::string> remarks_;
};

}  // namespace tutti::tokenizer
