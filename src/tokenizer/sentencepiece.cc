#include "tokenizer/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/merge_table.h"

namespace tutti::tokenizer {
namespace {

constexpr size_t kLongestScoredLookup = 64;  // bytes; longer stretches are merged, not looked up

}  // namespace

struct SentencePiece::Scratch {
  std::string text;               // with marks for spaces
  std::vector<uint32_t> offsets;  // of the stretch's characters, and its end
  MergeList<float> list;
  // The merge that made each unused token, to undo it: (token, bytes of its left half).
  std::vector<std::pair<TokenId, uint32_t>> halves;
};

Result<std::unique_ptr<const Encoder>> SentencePiece::Create(const Vocabulary& vocabulary) {
  std::unique_ptr<SentencePiece> encoder(new SentencePiece(vocabulary));
  RETURN_IF_ERROR(encoder->IndexTokens());
  return std::unique_ptr<const Encoder>(std::move(encoder));
}

Status SentencePiece::IndexTokens() {
  const Status collision =
      InvalidArgument("tokenizer_limit", "token texts collide in the hash table");
  byte_token_.fill(kNoToken);
  tokens_.Reserve(static_cast<size_t>(vocabulary_.size()));
  const auto text_of = [this](TokenId id) { return vocabulary_.Text(id); };
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const TokenType type = vocabulary_.Type(id);
    const std::string_view text = vocabulary_.Text(id);
    if (type == TokenType::kByte)
      byte_token_[static_cast<unsigned char>(vocabulary_.Piece(id)[0])] = id;
    const bool from_text =
        type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kUnused;
    if (!from_text || text.empty()) continue;
    if (tokens_.Insert(text, id, text_of) == Inserted::kTooManyProbes) return collision;
    if (!stretches_.Add(text)) return collision;
  }
  // With the tables complete, find the tokens that merging their own characters leads to.
  is_own_merge_.assign(static_cast<size_t>(vocabulary_.size()), false);
  Scratch scratch;
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const size_t length = vocabulary_.Text(id).size();
    if (vocabulary_.Type(id) != TokenType::kNormal || length == 0 || length > kLongestScoredLookup)
      continue;
    ids.clear();
    MergeStretch(vocabulary_.Text(id), scratch, ids);
    is_own_merge_[static_cast<size_t>(id)] = ids.size() == 1 && ids[0] == id;
  }
  return OkStatus();
}

TokenId SentencePiece::FindToken(std::string_view spelling) const {
  return tokens_.Find(spelling, [this](TokenId id) { return vocabulary_.Text(id); });
}

void SentencePiece::Encode(std::string_view text, const PreTokenizer&, bool,
                           std::vector<TokenId>& ids) const {
  if (text.empty()) return;
  Scratch scratch;
  std::string& marked = scratch.text;
  marked.reserve(text.size() + text.size() / 4 + kWordMark.size());
  if (vocabulary_.add_space_prefix()) marked.append(kWordMark);
  for (const char c : text) {
    if (c == ' ') {
      marked.append(kWordMark);
    } else {
      marked.push_back(c);
    }
  }
  stretches_.Cut(marked, [&](std::string_view stretch) { EncodeStretch(stretch, scratch, ids); });
}

void SentencePiece::EncodeStretch(std::string_view text, Scratch& scratch,
                                  std::vector<TokenId>& ids) const {
  const TokenId whole = text.size() <= kLongestScoredLookup ? FindToken(text) : kNoToken;
  if (whole != kNoToken && is_own_merge_[static_cast<size_t>(whole)]) {
    ids.push_back(whole);
  } else {
    MergeStretch(text, scratch, ids);
  }
}

void SentencePiece::MergeStretch(std::string_view text, Scratch& scratch,
                                 std::vector<TokenId>& ids) const {
  std::vector<uint32_t>& offsets = scratch.offsets;
  std::vector<TokenId>& symbols = scratch.list.symbols();
  offsets.clear();
  symbols.clear();
  scratch.halves.clear();
  for (size_t at = 0; at < text.size();) {
    const size_t length = DecodeAt(text, at).length;
    offsets.push_back(static_cast<uint32_t>(at));
    symbols.push_back(FindToken(text.substr(at, length)));
    at += length;
  }
  offsets.push_back(static_cast<uint32_t>(text.size()));
  scratch.list.Merge([&](size_t left, size_t right, size_t end) -> MergeList<float>::Pair {
    const uint32_t begin = offsets[left];
    const TokenId merged = FindToken(text.substr(begin, offsets[end] - begin));
    if (merged == kNoToken) return {};
    if (vocabulary_.Type(merged) == TokenType::kUnused) {
      scratch.halves.emplace_back(merged, offsets[right] - begin);
    }
    // The list takes the least key first; a score of minus infinity is still a score.
    return {std::min(-vocabulary_.Score(merged), std::nextafter(MergeList<float>::kNever, 0.0F)),
            merged};
  });
  // The last way an unused token was found is the one it is taken apart by.
  std::stable_sort(scratch.halves.begin(), scratch.halves.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < symbols.size();) {
    const size_t next = scratch.list.Next(i);
    const TokenId id = symbols[i];
    const std::string_view spelling = text.substr(offsets[i], offsets[next] - offsets[i]);
    if (id == kNoToken) {
      EmitBytes(spelling, ids);
    } else if (vocabulary_.Type(id) == TokenType::kUnused) {
      TakeApart(spelling, id, scratch, ids);
    } else {
      ids.push_back(id);
    }
    i = next;
  }
}

// One character that is no token: its bytes, or one unknown token where the model has no bytes.
void SentencePiece::EmitBytes(std::string_view character, std::vector<TokenId>& ids) const {
  for (const char c : character) {
    const TokenId byte = byte_token_[static_cast<unsigned char>(c)];
    if (byte != kNoToken) {
      ids.push_back(byte);
    } else if (vocabulary_.special().unk != kNoToken) {
      ids.push_back(vocabulary_.special().unk);
      return;
    }
  }
}

// An unused token is replaced by the halves it was merged from, they by theirs, until none is
// unused.
void SentencePiece::TakeApart(std::string_view text, TokenId unused, const Scratch& scratch,
                              std::vector<TokenId>& ids) const {
  std::vector<std::pair<std::string_view, TokenId>> left_to_do = {{text, unused}};
  while (!left_to_do.empty()) {
    const auto [spelling, token] = left_to_do.back();
    left_to_do.pop_back();
    if (token == kNoToken) {
      EmitBytes(spelling, ids);
      continue;
    }
    const auto half = std::upper_bound(
        scratch.halves.begin(), scratch.halves.end(), token,
        [](TokenId wanted, const std::pair<TokenId, uint32_t>& h) { return wanted < h.first; });
    if (half == scratch.halves.begin() || std::prev(half)->first != token) {
      ids.push_back(token);  // used, or a single character
      continue;
    }
    const uint32_t middle = std::prev(half)->second;
    const std::string_view left = spelling.substr(0, middle);
    const std::string_view right = spelling.substr(middle);
    left_to_do.emplace_back(right, FindToken(right));
    left_to_do.emplace_back(left, FindToken(left));
  }
}

}  // namespace tutti::tokenizer
