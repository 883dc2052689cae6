// Tokenizer: text to token ids and back, for one model.
//
// Immutable after Create() and safe to share over threads; every call is a pure function of its
// arguments. Encoding is O(n log n) in the bytes of the text for any text, valid UTF-8 or not: a
// byte that is no UTF-8 counts as one symbol of its own. No regular-expression engine sees the
// input.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tokenizer/encoder.h"
#include "tokenizer/encoder_input.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/special_matcher.h"
#include "tokenizer/tokenizer_spec.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

struct EncodeOptions {
  bool add_special =
      true;  // BOS and EOS if the model file needs them; [CLS] and [SEP] for WordPiece
  bool parse_special =
      false;  // special tokens spelled in the text become their ids; only for trusted text
};

// A stretch of a prompt. Segments are one text: merging and pre-tokenising run across their
// borders, and only the recognition of special tokens stops at a segment that is not trusted.
struct TextSegment {
  std::string_view text;
  bool parse_special = false;  // true: the template's own text; false: a user's text
};

struct DecodeOptions {
  bool skip_special = true;  // control tokens leave no text
  // SentencePiece style: drop the one space that encoding put before the text. True for a whole
  // text, false for the continuation of one, whose first space is the model's own.
  bool strip_space_prefix = true;
};

class Tokenizer {
 public:
  // Errors: tokenizer_invalid, tokenizer_unsupported (model or pre-tokenizer, by name),
  // tokenizer_limit.
  static Result<std::shared_ptr<const Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t vocabulary_size() const { return vocabulary_.size(); }
  const std::string& chat_template() const {
    return chat_template_;
  }  // empty when the file has none

  // Oddities of the file that change no answer: sentences for the operator, at most a few.
  std::vector<std::string> Remarks() const;

  std::vector<TokenId> Encode(std::string_view text, EncodeOptions options = {}) const;
  std::vector<TokenId> Encode(std::span<const TextSegment> segments,
                              bool add_special = false) const;

  // The tokens of a text that follows other text: Encode() without special tokens, and without the
  // space that SentencePiece models put before a text.
  std::vector<TokenId> EncodeContinuation(std::string_view text) const;
  // The special tokens that Encode() puts before a text.
  std::vector<TokenId> LeadingTokens() const;

  // Input of an encoder: Encode with special tokens, cut to the options' length; and a pair of
  // texts, each encoded by itself. EncodePair needs reads_pairs().
  EncoderInput EncodeInput(std::string_view text, const InputOptions& options = {}) const;
  EncoderInput EncodePair(std::string_view first, std::string_view second,
                          const InputOptions& options = {}) const;
  bool reads_pairs() const { return !pair_.empty(); }
  // Special tokens that EncodeInput and EncodePair add.
  int framing_tokens() const { return CountFraming(single_); }
  int pair_framing_tokens() const { return CountFraming(pair_); }

  // Always valid UTF-8: each maximal invalid stretch of bytes becomes one U+FFFD. Ids outside the
  // vocabulary leave no text; servers refuse them before (token_out_of_range).
  std::string Decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;
  // As above, but invalid UTF-8 is returned unchanged.
  std::string DecodeBytes(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  // Raw bytes of one token, at any place of a text; special tokens show their spelling. Empty
  // outside the vocabulary. Valid as long as the tokenizer.
  std::string_view Piece(TokenId id) const {
    return vocabulary_.Contains(id) ? vocabulary_.Piece(id) : std::string_view();
  }

  // The shared step of Decode() and StreamDecoder: appends the bytes that `id` contributes.
  // `first`: no token has contributed yet. False when the token leaves no text.
  bool AppendPiece(TokenId id, bool first, const DecodeOptions& options, std::string& bytes) const;

 private:
  Tokenizer(Vocabulary vocabulary, std::string chat_template);
  Status SetSteps(TokenizerSpec& spec);
  Status SetEncoder(TokenizerSpec& spec);
  Status SetFrames(TokenizerSpec& spec);
  Status CheckFrame(const std::vector<FramePlace>& frame, bool pair) const;
  void EncodeText(std::string_view text, const std::vector<TextRange>& trusted,
                  std::vector<TokenId>& ids) const;
  // Text between the tokens that are found in it as it is: normalizes it and finds the others.
  // `begin`: where it stands in the whole text; `range`: the first of `trusted` that may reach it.
  void EncodeStretch(std::string_view stretch, size_t begin, const std::vector<TextRange>& trusted,
                     size_t& range, std::vector<TokenId>& ids) const;
  static int CountFraming(std::span<const FramePlace> frame);
  // The special tokens of single_ before or behind the text.
  void AppendFrame(bool behind, std::vector<TokenId>& ids) const;

  Vocabulary vocabulary_;
  Normalizer normalizer_;
  PreTokenizer splitter_;
  SpecialMatcher specials_;             // found in the text before normalization
  SpecialMatcher normalized_specials_;  // found in the normalized text
  std::string chat_template_;
  std::vector<FramePlace> single_, pair_;   // frames of one text and of two; no pair_: not read
  std::unique_ptr<const Encoder> encoder_;  // refers to vocabulary_
};

}  // namespace tutti::tokenizer
