#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "tokenizer/bpe.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/pre_tokenizer_names.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/special_matcher.h"
#include "tokenizer/unigram.h"
#include "tokenizer/wordpiece.h"

namespace tutti::tokenizer {
namespace {

std::span<const TokenId> Keep(std::span<const TokenId> ids, size_t count, CutSide cut) {
  return cut == CutSide::kRight ? ids.first(count) : ids.last(count);
}

// Hugging Face's WordPiece decoder writes these without the space that separates other words.
bool ClingsToTheLeft(std::string_view piece) {
  constexpr std::array<std::string_view, 9> kClinging = {".",  "?",  "!",   ",",  "n't",
                                                         "'m", "'s", "'ve", "'re"};
  for (const std::string_view clinging : kClinging) {
    if (piece.starts_with(clinging)) return true;
  }
  return false;
}

// The tokens that the chat template may write, as text.
SpecialTokens TemplateTokens(const TokenizerSpec& spec) {
  const auto text = [&](const std::optional<int64_t>& id) {
    const bool known = id && *id >= 0 && static_cast<size_t>(*id) < spec.tokens.size();
    return known ? spec.tokens[static_cast<size_t>(*id)] : std::string();
  };
  return {
      .bos = text(spec.bos), .eos = text(spec.eos), .unk = text(spec.unk), .pad = text(spec.pad)};
}

}  // namespace

std::pair<size_t, size_t> CutLongestFirst(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  size_t shorter = std::min(first, second);
  size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return first > second ? std::pair{longer, shorter} : std::pair{shorter, longer};
}

EncoderInput FillFrame(std::span<const FramePlace> frame, std::span<const TokenId> first,
                       std::span<const TokenId> second, const InputOptions& options) {
  EncoderInput input;
  size_t special = 0;
  bool typed = false, has_first = false, has_second = false;
  for (const FramePlace& place : frame) {
    has_first |= place.token == FramePlace::kFirstText;
    has_second |= place.token == FramePlace::kSecondText;
    special += place.token >= 0;
    typed |= place.type != 0;
  }
  if (!has_first) first = {};
  if (!has_second) second = {};
  input.whole = special + first.size() + second.size();
  const auto limit = static_cast<size_t>(std::max(options.max_tokens, 0));
  const auto [keep_first, keep_second] =
      CutLongestFirst(first.size(), second.size(), limit > special ? limit - special : 0);
  first = Keep(first, keep_first, options.cut);
  second = Keep(second, keep_second, options.cut);
  input.ids.reserve(special + first.size() + second.size());
  for (const FramePlace& place : frame) {
    if (place.token >= 0) {
      input.ids.push_back(static_cast<TokenId>(place.token));
    } else {
      const auto text = place.token == FramePlace::kFirstText ? first : second;
      input.ids.insert(input.ids.end(), text.begin(), text.end());
    }
    if (typed) input.types.resize(input.ids.size(), place.type);
  }
  return input;
}

Tokenizer::Tokenizer(Vocabulary vocabulary, std::string chat_template)
    : vocabulary_(std::move(vocabulary)), chat_template_(std::move(chat_template)) {}

Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  std::string behind_answer;
  if (!spec.chat_template.empty())
    behind_answer = TextBehindAnswer(spec.chat_template, TemplateTokens(spec));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(spec, behind_answer));
  // The encoder refers to the vocabulary, so the tokenizer is where it is going to stay first.
  std::shared_ptr<Tokenizer> tokenizer(
      new Tokenizer(std::move(vocabulary), std::move(spec.chat_template)));
  RETURN_IF_ERROR(tokenizer->SetSteps(spec));
  RETURN_IF_ERROR(tokenizer->SetFrames(spec));
  RETURN_IF_ERROR(tokenizer->SetEncoder(spec));
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

// Normalizer, pre-tokenizer and the two matchers of added tokens.
Status Tokenizer::SetSteps(TokenizerSpec& spec) {
  const ModelKind kind = vocabulary_.kind();
  if (kind == ModelKind::kByteBpe && !spec.has_steps) {
    std::optional<NamedPreTokenizer> named = FindPreTokenizer(spec.pre);
    if (!named) {
      return InvalidArgument("tokenizer_unsupported",
                             "pre-tokenizer " + Quote(spec.pre) +
                                 " is not known; guessing one would change every answer");
    }
    spec.normalizer = std::move(named->normalizer);
    spec.split = std::move(named->split);
    if (!spec.ignore_merges) spec.ignore_merges = named->ignore_merges;
  }
  ASSIGN_OR_RETURN(normalizer_, Normalizer::Create(spec.normalizer));
  const bool in_alphabet = std::ranges::any_of(spec.normalizer, [](const NormalizerStep& step) {
    return step.kind == NormalizerStep::Kind::kByteLevel;
  });
  ASSIGN_OR_RETURN(splitter_, PreTokenizer::Create(spec.split, in_alphabet));
  if (splitter_.gives_bytes() != (kind == ModelKind::kByteBpe)) {
    return InvalidArgument("tokenizer_unsupported",
                           splitter_.gives_bytes()
                               ? "ByteLevel is supported with BPE alone"
                               : "byte-level BPE needs ByteLevel in its pre-tokenizer");
  }
  ASSIGN_OR_RETURN(specials_, SpecialMatcher::Create(vocabulary_, spec.added, false, normalizer_));
  ASSIGN_OR_RETURN(normalized_specials_,
                   SpecialMatcher::Create(vocabulary_, spec.added, true, normalizer_));
  return OkStatus();
}

Status Tokenizer::SetEncoder(TokenizerSpec& spec) {
  switch (vocabulary_.kind()) {
    case ModelKind::kByteBpe: {
      ASSIGN_OR_RETURN(
          encoder_, ByteBpe::Create(vocabulary_, spec.merges, spec.ignore_merges.value_or(false)));
      return OkStatus();
    }
    case ModelKind::kCharacterBpe: {
      CharacterBpeOptions options{.ignore_merges = spec.ignore_merges.value_or(false),
                                  .byte_fallback = spec.byte_fallback,
                                  .fuse_unknown = spec.fuse_unknown,
                                  .continuing_prefix = std::move(spec.continuing_prefix),
                                  .end_of_word_suffix = std::move(spec.end_of_word_suffix)};
      ASSIGN_OR_RETURN(encoder_,
                       CharacterBpe::Create(vocabulary_, spec.merges, std::move(options)));
      return OkStatus();
    }
    case ModelKind::kSentencePiece: {
      ASSIGN_OR_RETURN(encoder_, SentencePiece::Create(vocabulary_));
      return OkStatus();
    }
    case ModelKind::kWordPiece: {
      const bool lowercase = spec.lowercase.value_or(true);
      WordPieceOptions options{.own_words = !spec.has_steps,
                               .lowercase = lowercase,
                               .strip_accents = spec.strip_accents.value_or(lowercase),
                               .continuing_prefix = vocabulary_.continuing_prefix()};
      if (spec.max_word_characters != 0) options.max_word_characters = spec.max_word_characters;
      ASSIGN_OR_RETURN(encoder_, WordPiece::Create(vocabulary_, std::move(options)));
      return OkStatus();
    }
    case ModelKind::kUnigram: {
      ASSIGN_OR_RETURN(encoder_, Unigram::Create(vocabulary_, std::move(spec.unigram_scores),
                                                 spec.byte_fallback));
      return OkStatus();
    }
  }
  return OkStatus();
}

Status Tokenizer::CheckFrame(const std::vector<FramePlace>& frame, bool pair) const {
  const auto count = [&](int64_t token) {
    return std::count_if(frame.begin(), frame.end(),
                         [&](const FramePlace& place) { return place.token == token; });
  };
  const bool sound = std::all_of(frame.begin(), frame.end(), [&](const FramePlace& place) {
    return place.token < 0 || vocabulary_.Contains(place.token);
  });
  if (sound && frame.size() <= kMaxFramePlaces && count(FramePlace::kFirstText) == 1 &&
      count(FramePlace::kSecondText) == (pair ? 1 : 0))
    return OkStatus();
  const std::string input = pair ? "pairs" : "single texts";
  return InvalidArgument("tokenizer_invalid",
                         "template for " + input +
                             " must contain each text once, only vocabulary tokens, and at most " +
                             std::to_string(kMaxFramePlaces) + " places");
}

Status Tokenizer::SetFrames(TokenizerSpec& spec) {
  const SpecialIds& ids = vocabulary_.special();
  const bool bert = vocabulary_.kind() == ModelKind::kWordPiece;
  const bool by_kind = spec.single.empty();
  if (!by_kind) {
    RETURN_IF_ERROR(CheckFrame(spec.single, false));
    single_ = std::move(spec.single);
  } else {
    if (bert || vocabulary_.add_bos()) single_.push_back({bert ? ids.cls : ids.bos, 0});
    single_.push_back({FramePlace::kFirstText, 0});
    if (bert || vocabulary_.add_eos()) single_.push_back({bert ? ids.sep : ids.eos, 0});
  }
  std::vector<FramePlace>& pair = spec.pair;
  if (pair.empty() && bert && by_kind) {
    pair = {{ids.cls, 0},
            {FramePlace::kFirstText, 0},
            {ids.sep, 0},
            {FramePlace::kSecondText, 1},
            {ids.sep, 1}};
  }
  if (pair.empty()) return OkStatus();
  RETURN_IF_ERROR(CheckFrame(pair, true));
  pair_ = std::move(pair);
  return OkStatus();
}

std::vector<std::string> Tokenizer::Remarks() const {
  std::vector<std::string> remarks = vocabulary_.remarks();
  if (const size_t count = encoder_->unusable_merges(); count > 0) {
    remarks.push_back(std::to_string(count) +
                      " merges name a piece that is no token: not used, as no text reaches them");
  }
  return remarks;
}

int Tokenizer::CountFraming(std::span<const FramePlace> frame) {
  return static_cast<int>(std::count_if(frame.begin(), frame.end(),
                                        [](const FramePlace& place) { return place.token >= 0; }));
}

EncoderInput Tokenizer::EncodeInput(std::string_view text, const InputOptions& options) const {
  const std::vector<TokenId> ids = Encode(text, {false, options.parse_special});
  return FillFrame(single_, ids, {}, options);
}

EncoderInput Tokenizer::EncodePair(std::string_view first, std::string_view second,
                                   const InputOptions& options) const {
  CHECK(reads_pairs());
  const std::vector<TokenId> a = Encode(first, {false, options.parse_special});
  const std::vector<TokenId> b = Encode(second, {false, options.parse_special});
  return FillFrame(pair_, a, b, options);
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  const TextSegment segment{text, options.parse_special};
  return Encode(std::span(&segment, 1), options.add_special);
}

std::vector<TokenId> Tokenizer::Encode(std::span<const TextSegment> segments,
                                       bool add_special) const {
  std::vector<TokenId> ids;
  if (add_special) AppendFrame(false, ids);
  if (segments.size() == 1) {
    std::vector<TextRange> trusted;
    if (segments[0].parse_special) trusted.push_back({0, segments[0].text.size()});
    EncodeText(segments[0].text, trusted, ids);
  } else {
    std::string text;
    std::vector<TextRange> trusted;
    for (const TextSegment& segment : segments) {
      const size_t begin = text.size();
      text.append(segment.text);
      if (!segment.parse_special || segment.text.empty()) continue;
      if (!trusted.empty() && trusted.back().end == begin) {
        trusted.back().end = text.size();
      } else {
        trusted.push_back({begin, text.size()});
      }
    }
    EncodeText(text, trusted, ids);
  }
  if (add_special) AppendFrame(true, ids);
  return ids;
}

// As CodeLlama and Mistral do it: a character that merges with no other takes the space, and its
// tokens are dropped.
std::vector<TokenId> Tokenizer::EncodeContinuation(std::string_view text) const {
  constexpr std::string_view kSentinel = "\u263A";
  const EncodeOptions plain{.add_special = false};
  const bool marks_spaces =
      vocabulary_.kind() != ModelKind::kByteBpe && vocabulary_.kind() != ModelKind::kWordPiece;
  if (text.empty() || !marks_spaces) return Encode(text, plain);
  const std::vector<TokenId> dropped = Encode(kSentinel, plain);
  std::vector<TokenId> ids = Encode(std::string(kSentinel).append(text), plain);
  // A vocabulary that merges the character in spite of this keeps the space.
  if (ids.size() < dropped.size() || !std::equal(dropped.begin(), dropped.end(), ids.begin()))
    return Encode(text, plain);
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(dropped.size()));
  return ids;
}

std::vector<TokenId> Tokenizer::LeadingTokens() const {
  std::vector<TokenId> ids;
  AppendFrame(false, ids);
  return ids;
}

void Tokenizer::EncodeText(std::string_view text, const std::vector<TextRange>& trusted,
                           std::vector<TokenId>& ids) const {
  SpecialMatcher::Cursor cursor;
  size_t range = 0;
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = specials_.Next(text, trusted, at, cursor);
    if (match.begin > at) EncodeStretch(text.substr(at, match.begin - at), at, trusted, range, ids);
    if (match.id != kNoToken) ids.push_back(match.id);
    at = match.end;
  }
}

void Tokenizer::EncodeStretch(std::string_view stretch, size_t begin,
                              const std::vector<TextRange>& trusted, size_t& range,
                              std::vector<TokenId>& ids) const {
  const bool at_start = begin == 0;
  if (normalized_specials_.empty()) {
    if (normalizer_.empty()) return encoder_->Encode(stretch, splitter_, at_start, ids);
    return encoder_->Encode(normalizer_.Apply(stretch), splitter_, at_start, ids);
  }
  // The borders of trust move with the text.
  const size_t end = begin + stretch.size();
  std::vector<size_t> borders;
  while (range < trusted.size() && trusted[range].end <= begin) ++range;
  for (size_t i = range; i < trusted.size() && trusted[i].begin < end; ++i) {
    borders.push_back(std::max(trusted[i].begin, begin) - begin);
    borders.push_back(std::min(trusted[i].end, end) - begin);
  }
  const std::string text = normalizer_.Apply(stretch, borders);
  std::vector<TextRange> inside;
  for (size_t i = 0; i + 1 < borders.size(); i += 2) {
    if (borders[i] < borders[i + 1]) inside.push_back({borders[i], borders[i + 1]});
  }
  SpecialMatcher::Cursor cursor;
  const std::string_view all = text;
  for (size_t at = 0; at < all.size();) {
    const SpecialMatcher::Match match = normalized_specials_.Next(all, inside, at, cursor);
    if (match.begin > at)
      encoder_->Encode(all.substr(at, match.begin - at), splitter_, at_start && at == 0, ids);
    if (match.id != kNoToken) ids.push_back(match.id);
    at = match.end;
  }
}

void Tokenizer::AppendFrame(bool behind, std::vector<TokenId>& ids) const {
  bool passed = false;
  for (const FramePlace& place : single_) {
    if (place.token < 0) {
      passed = true;
    } else if (passed == behind) {
      ids.push_back(static_cast<TokenId>(place.token));
    }
  }
}

bool Tokenizer::AppendPiece(TokenId id, bool first, const DecodeOptions& options,
                            std::string& bytes) const {
  if (!vocabulary_.Contains(id)) return false;
  const bool special = vocabulary_.IsSpecial(id);
  if (special && options.skip_special) return false;
  std::string_view piece = vocabulary_.Piece(id);
  if (vocabulary_.kind() == ModelKind::kWordPiece) {
    if (first) {
      // The first token of a text is written unchanged.
    } else if (piece.starts_with(vocabulary_.continuing_prefix())) {
      piece.remove_prefix(vocabulary_.continuing_prefix().size());
    } else if (!ClingsToTheLeft(piece)) {
      bytes.push_back(' ');
    }
  } else if (first && options.strip_space_prefix && !special && vocabulary_.decode_strips_space() &&
             piece.starts_with(' ')) {
    piece.remove_prefix(1);
  }
  bytes.append(piece);
  return true;
}

std::string Tokenizer::DecodeBytes(std::span<const TokenId> ids, DecodeOptions options) const {
  std::string bytes;
  bool first = true;
  for (const TokenId id : ids) {
    if (AppendPiece(id, first, options, bytes)) first = false;
  }
  return bytes;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, DecodeOptions options) const {
  std::string text;
  Utf8Repair repair;
  repair.Push(DecodeBytes(ids, options), text);
  repair.Finish(text);
  return text;
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

void StreamDecoder::Push(TokenId id, std::string& out) {
  bytes_.clear();
  if (!tokenizer_->AppendPiece(id, first_, options_, bytes_)) return;
  first_ = false;
  repair_.Push(bytes_, out);
}

std::string StreamDecoder::Push(TokenId id) {
  std::string out;
  Push(id, out);
  return out;
}

void StreamDecoder::Finish(std::string& out) {
  repair_.Finish(out);
  first_ = true;
}

std::string StreamDecoder::Finish() {
  std::string out;
  Finish(out);
  return out;
}

}  // namespace tutti::tokenizer
