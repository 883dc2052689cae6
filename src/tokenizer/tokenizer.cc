#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/byte_bpe.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/special_matcher.h"
#include "tokenizer/unigram.h"
#include "tokenizer/wordpiece.h"

namespace tutti::tokenizer {
namespace {

// Hugging Face's WordPiece decoder writes these without the space that separates other words.
bool ClingsToTheLeft(std::string_view piece) {
  constexpr std::array<std::string_view, 9> kClinging = {".",  "?",  "!",   ",",  "n't",
                                                         "'m", "'s", "'ve", "'re"};
  for (const std::string_view clinging : kClinging) {
    if (piece.starts_with(clinging)) return true;
  }
  return false;
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary, SpecialMatcher specials, std::string chat_template)
    : vocabulary_(std::move(vocabulary)),
      specials_(std::move(specials)),
      chat_template_(std::move(chat_template)) {}

Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(spec));
  ASSIGN_OR_RETURN(SpecialMatcher specials, SpecialMatcher::Create(vocabulary));
  // The encoder refers to the vocabulary, so the tokenizer is where it is going to stay first.
  std::shared_ptr<Tokenizer> tokenizer(
      new Tokenizer(std::move(vocabulary), std::move(specials), std::move(spec.chat_template)));
  RETURN_IF_ERROR(tokenizer->SetFrames(std::move(spec.pair)));
  switch (tokenizer->vocabulary_.kind()) {
    case ModelKind::kByteBpe: {
      ASSIGN_OR_RETURN(tokenizer->encoder_,
                       ByteBpe::Create(tokenizer->vocabulary_, spec.merges, spec.ignore_merges));
      break;
    }
    case ModelKind::kSentencePiece: {
      ASSIGN_OR_RETURN(tokenizer->encoder_, SentencePiece::Create(tokenizer->vocabulary_));
      break;
    }
    case ModelKind::kWordPiece: {
      const bool lowercase = spec.lowercase.value_or(true);
      const WordPieceOptions options{.lowercase = lowercase,
                                     .strip_accents = spec.strip_accents.value_or(lowercase)};
      ASSIGN_OR_RETURN(tokenizer->encoder_, WordPiece::Create(tokenizer->vocabulary_, options));
      break;
    }
    case ModelKind::kUnigram: {
      ASSIGN_OR_RETURN(tokenizer->encoder_,
                       Unigram::Create(tokenizer->vocabulary_, std::move(spec.unigram)));
      break;
    }
  }
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Status Tokenizer::SetFrames(std::vector<FramePlace> pair) {
  const SpecialIds& ids = vocabulary_.special();
  const bool bert = vocabulary_.kind() == ModelKind::kWordPiece;
  if (bert || vocabulary_.add_bos()) single_.push_back({bert ? ids.cls : ids.bos, 0});
  single_.push_back({FramePlace::kFirstText, 0});
  if (bert || vocabulary_.add_eos()) single_.push_back({bert ? ids.sep : ids.eos, 0});
  if (pair.empty() && bert) {
    pair = {{ids.cls, 0},
            {FramePlace::kFirstText, 0},
            {ids.sep, 0},
            {FramePlace::kSecondText, 1},
            {ids.sep, 1}};
  }
  if (pair.empty()) return OkStatus();
  const auto count = [&](int64_t token) {
    return std::count_if(pair.begin(), pair.end(),
                         [&](const FramePlace& place) { return place.token == token; });
  };
  const bool sound = std::all_of(pair.begin(), pair.end(), [&](const FramePlace& place) {
    return place.token < 0 || vocabulary_.Contains(place.token);
  });
  if (!sound || pair.size() > kMaxFramePlaces || count(FramePlace::kFirstText) != 1 ||
      count(FramePlace::kSecondText) != 1) {
    return InvalidArgument("tokenizer_invalid",
                           "the frame of pairs must hold each text once and tokens of the "
                           "vocabulary, at most " +
                               std::to_string(kMaxFramePlaces) + " together");
  }
  pair_ = std::move(pair);
  return OkStatus();
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

void Tokenizer::EncodeText(std::string_view text, const std::vector<TextRange>& trusted,
                           std::vector<TokenId>& ids) const {
  SpecialMatcher::Cursor cursor;
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = specials_.Next(text, trusted, at, cursor);
    if (match.begin > at) encoder_->Encode(text.substr(at, match.begin - at), ids);
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
      // The first token of a text shows itself as it is.
    } else if (piece.starts_with("##")) {
      piece.remove_prefix(2);
    } else if (!ClingsToTheLeft(piece)) {
      bytes.push_back(' ');
    }
  } else if (first && options.strip_space_prefix && !special && vocabulary_.add_space_prefix() &&
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

}  // namespace tutti::tokenizer
