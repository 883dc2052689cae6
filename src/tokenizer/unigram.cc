#include "tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/unicode_class.h"

namespace tutti::tokenizer {
namespace {

constexpr std::string_view kWordMark = "\xE2\x96\x81";  // U+2581
constexpr double kUnknownPenalty = 10;

bool IsSpace(const Symbol& symbol) { return symbol.Is(kSpace); }

std::string_view StripLeft(std::string_view text) {
  while (!text.empty()) {
    const Symbol symbol = SymbolAt(text, 0);
    if (!IsSpace(symbol)) break;
    text.remove_prefix(symbol.length);
  }
  return text;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;  // where the last character begins
    while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
      --at;
    const Symbol symbol = SymbolAt(text, at);
    if (at + symbol.length != text.size() || !IsSpace(symbol)) break;
    text = text.substr(0, at);
  }
  return text;
}

// Two and more spaces in a row become `content`.
std::string Squeezed(std::string_view text, std::string_view content) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && text[end] == ' ') ++end;
    if (end - at >= 2) {
      out.append(content);
      at = end;
    } else {
      out.push_back(text[at++]);
    }
  }
  return out;
}

}  // namespace

struct Unigram::Best {
  double score = 0;
  size_t begin = std::string_view::npos;  // of the piece that ends here; npos: no way leads here
  TokenId id = kNoToken;
};

struct Unigram::Scratch {
  std::string marked;
  std::vector<Best> best;
  struct Cut {
    TokenId id;
    size_t begin, end;
  };
  std::vector<Cut> cuts;
};

Result<std::unique_ptr<const Encoder>> Unigram::Create(const Vocabulary& vocabulary,
                                                       UnigramSpec spec) {
  std::unique_ptr<Unigram> encoder(new Unigram(vocabulary, std::move(spec)));
  RETURN_IF_ERROR(encoder->IndexPieces());
  return std::unique_ptr<const Encoder>(std::move(encoder));
}

Status Unigram::IndexPieces() {
  const size_t scored = spec_.scores.size();
  if (scored == 0 || scored > static_cast<size_t>(vocabulary_.size()))
    return InvalidArgument("tokenizer_invalid", "a unigram model needs a score for each piece");
  if (vocabulary_.special().unk == kNoToken)
    return InvalidArgument("tokenizer_invalid", "a unigram model needs an unknown token");
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string_view, TokenId>> pieces;
  for (size_t i = 0; i < scored; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!std::isfinite(spec_.scores[i])) {
      return InvalidArgument("tokenizer_invalid",
                             "the score of token " + std::to_string(id) + " is not finite");
    }
    least = std::min(least, spec_.scores[i]);
    const std::string_view text = vocabulary_.Text(id);
    if (vocabulary_.IsSpecial(id) || text.empty()) continue;
    if (text.size() > kMaxPieceBytes) {
      return InvalidArgument("tokenizer_limit",
                             "piece " + std::to_string(id) + " has " + std::to_string(text.size()) +
                                 " bytes; the limit is " + std::to_string(kMaxPieceBytes));
    }
    pieces.emplace_back(text, id);
  }
  unknown_score_ = least - kUnknownPenalty;
  ASSIGN_OR_RETURN(pieces_, ByteTrie::Create(std::move(pieces)));
  for (const UnigramSpec::Step& step : spec_.normalizer) {
    if (step.kind != UnigramSpec::StepKind::kCharsmap || charsmap_) continue;
    ASSIGN_OR_RETURN(charsmap_, PrecompiledCharsmap::Create(spec_.charsmap));
  }
  spells_bytes_ = spec_.byte_fallback;
  constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256 && spells_bytes_; ++byte) {
    byte_token_[byte] =
        vocabulary_.Find(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    spells_bytes_ = byte_token_[byte] != kNoToken && !vocabulary_.IsSpecial(byte_token_[byte]);
  }
  return OkStatus();
}

std::string Unigram::Normalized(std::string_view text) const {
  std::string out(text);
  for (const UnigramSpec::Step& step : spec_.normalizer) {
    std::string next;
    switch (step.kind) {
      case UnigramSpec::StepKind::kCharsmap:
        next.reserve(out.size());
        charsmap_->Apply(out, next);
        break;
      case UnigramSpec::StepKind::kStripLeft:
        next = StripLeft(out);
        break;
      case UnigramSpec::StepKind::kStripRight:
        next = StripRight(out);
        break;
      case UnigramSpec::StepKind::kSqueeze:
        next = Squeezed(out, step.content);
        break;
    }
    out = std::move(next);
  }
  return out;
}

void Unigram::Encode(std::string_view text, std::vector<TokenId>& ids) const {
  const std::string normalized = Normalized(text);
  Scratch scratch;
  if (!spec_.split_space) {
    EncodeStretch(normalized, scratch, ids);
    return;
  }
  const std::string_view rest = normalized;
  size_t begin = 0;
  for (size_t at = 0; at < rest.size();) {
    const Symbol symbol = SymbolAt(rest, at);
    if (IsSpace(symbol)) {
      EncodeStretch(rest.substr(begin, at - begin), scratch, ids);
      begin = at + symbol.length;
    }
    at += symbol.length;
  }
  EncodeStretch(rest.substr(begin), scratch, ids);
}

void Unigram::EncodeStretch(std::string_view text, Scratch& scratch,
                            std::vector<TokenId>& ids) const {
  if (text.empty()) return;
  std::string& marked = scratch.marked;
  marked.clear();
  const bool is_marked = text.front() == ' ' || text.starts_with(kWordMark);
  if (spec_.mark_first && !is_marked) marked.append(kWordMark);
  for (const char c : text) {
    if (c == ' ') {
      marked.append(kWordMark);
    } else {
      marked.push_back(c);
    }
  }
  const std::string_view all = marked;
  size_t begin = 0;
  while (spec_.split_words && begin < all.size()) {
    const size_t next = all.find(kWordMark, begin + 1);
    if (next == std::string_view::npos) break;
    EncodeWord(all.substr(begin, next - begin), scratch, ids);
    begin = next;
  }
  EncodeWord(all.substr(begin), scratch, ids);
}

void Unigram::EncodeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  std::vector<Best>& best = scratch.best;
  best.assign(word.size() + 1, Best());
  const auto offer = [&](size_t begin, size_t end, double score, TokenId id) {
    const double sum = best[begin].score + score;
    if (best[end].begin == std::string_view::npos || sum > best[end].score)
      best[end] = {sum, begin, id};
  };
  const TokenId unknown = vocabulary_.special().unk;
  for (size_t at = 0; at < word.size();) {
    const size_t character = DecodeAt(word, at).length;
    bool stands_alone = false;
    int32_t node = ByteTrie::kRoot;
    for (size_t end = at; end < word.size();) {
      node = pieces_.Next(node, static_cast<unsigned char>(word[end]));
      if (node == ByteTrie::kNone) break;
      ++end;
      const TokenId id = pieces_.id(node);
      if (id == kNoToken) continue;
      offer(at, end, spec_.scores[static_cast<size_t>(id)], id);
      stands_alone |= end - at == character;
    }
    if (!stands_alone) offer(at, at + character, unknown_score_, unknown);
    at += character;
  }
  std::vector<Scratch::Cut>& cuts = scratch.cuts;
  cuts.clear();
  for (size_t end = word.size(); end > 0; end = best[end].begin) {
    const Best& last = best[end];
    if (last.id == unknown && !cuts.empty() && cuts.back().id == unknown) {
      cuts.back().begin = last.begin;
    } else {
      cuts.push_back({last.id, last.begin, end});
    }
  }
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    if (cut->id == unknown) {
      AppendUnknown(word.substr(cut->begin, cut->end - cut->begin), ids);
    } else {
      ids.push_back(cut->id);
    }
  }
}

void Unigram::AppendUnknown(std::string_view text, std::vector<TokenId>& ids) const {
  if (!spells_bytes_) {
    ids.push_back(vocabulary_.special().unk);
    return;
  }
  for (const char c : text) ids.push_back(byte_token_[static_cast<unsigned char>(c)]);
}

}  // namespace tutti::tokenizer
