// Text to token ids and back, for one model: Tokenizer, the input of encoder models, and
// StreamDecoder.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "base/utf8.h"
#include "tokenizer/encoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/special_matcher.h"
#include "tokenizer/tokenizer_spec.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

// The end at which a text that is too long is truncated.
enum class CutSide : uint8_t {
  kRight,  // keep the beginning
  kLeft,   // keep the end
};

struct InputOptions {
  bool parse_special = true;  // as EncodeOptions; encoders' reference implementations do
  // Limit of the result, special tokens included. Special tokens are always kept, so the result has
  // at least them.
  int max_tokens = std::numeric_limits<int>::max();
  CutSide cut = CutSide::kRight;
};

// EncoderInput: the tokens of a text, or of a pair of texts, for an encoder model: with special
// tokens, a type for every token, and truncated to the model's length. Tokenizer::EncodeInput and
// EncodePair make them.
struct EncoderInput {
  std::vector<TokenId> ids;
  std::vector<uint8_t> types;  // as many; empty: all 0
  size_t whole = 0;            // tokens before cutting, special ones included
};

// To how many tokens two texts of `first` and `second` are cut so that `room` holds both: the
// longer one loses until both are equally long, then both lose. Source: "longest_first" of Hugging
// Face tokenizers.
std::pair<size_t, size_t> CutLongestFirst(size_t first, size_t second, size_t room);

// Puts the texts' ids in their places of the frame, cut according to the options. A frame of one
// text uses only `first`.
EncoderInput FillFrame(std::span<const FramePlace> frame, std::span<const TokenId> first,
                       std::span<const TokenId> second, const InputOptions& options);

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

// Tokenizer: text to token ids and back, for one model.
//
// Immutable after Create() and safe to share over threads; every call is a pure function of its
// arguments. Encoding is O(n log n) in the bytes of the text for any text, valid UTF-8 or not: a
// byte that is no UTF-8 counts as one symbol of its own. No regular-expression engine sees the
// input.
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

// StreamDecoder: turns the tokens of one generation into text as they arrive, without splitting
// characters.
//
// A value that belongs to one sequence (copyable; not for two threads at once). For any tokens,
// each returned string is valid UTF-8, and joined they equal Tokenizer::Decode() of all tokens with
// the same options. At most three bytes are held back.
class StreamDecoder {
 public:
  // By default decodes the continuation of a prompt: a leading space is the model's own and stays.
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                         DecodeOptions options = {.skip_special = true,
                                                  .strip_space_prefix = false});

  // Appends to `out` the text that `id` completes; nothing while a character is unfinished.
  void Push(TokenId id, std::string& out);
  std::string Push(TokenId id);

  // Appends U+FFFD if the last character never became whole, and starts anew. Call once at the end.
  void Finish(std::string& out);
  std::string Finish();

  // True while bytes of an unfinished character are held back.
  bool pending() const { return repair_.pending(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  DecodeOptions options_;
  bool first_ = true;  // no token has left text yet
  Utf8Repair repair_;
  std::string bytes_;  // scratch of Push
};

}  // namespace tutti::tokenizer
