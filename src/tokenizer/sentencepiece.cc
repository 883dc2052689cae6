#include "tokenizer/sentencepiece.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "tokenizer/utf8.h"

namespace tutti::tokenizer {
namespace {

constexpr std::string_view kWordMark = "\xE2\x96\x81";  // U+2581
constexpr size_t kLongestStretch = size_t{1} << 30;     // bytes; keeps positions in 32 bits

// Every code point, and every byte that is none, gets a number of its own.
int32_t CharacterNumber(const CodePoint& c, char first_byte) {
  if (c.valid) return static_cast<int32_t>(c.code_point);
  return 0x110000 + static_cast<unsigned char>(first_byte);
}

}  // namespace

struct SentencePiece::Scratch {
  // A merge that was possible when it was found; see ByteBpe for why `end` tells whether it still is.
  struct Candidate {
    float score;
    uint32_t left;  // index of the left symbol
    uint32_t end;   // index behind the right symbol
    TokenId merged;
    // Orders a heap whose top scores highest, the leftmost of equals.
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  // By index of a symbol's first character.
  struct Symbol {
    uint32_t offset;    // bytes into the stretch
    uint32_t previous;  // left neighbour's index; own index at the left edge
    uint32_t end;       // index of the right neighbour
    TokenId id;         // kNoToken: no token, or swallowed (then end is 0)
  };

  std::string text;  // with marks for spaces
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;
  // How unused tokens came about, to take them apart again: (token) -> bytes of its left half.
  std::vector<std::pair<TokenId, uint32_t>> halves;
};

Result<std::unique_ptr<const Encoder>> SentencePiece::Create(const Vocabulary& vocabulary) {
  std::unique_ptr<SentencePiece> encoder(new SentencePiece(vocabulary));
  RETURN_IF_ERROR(encoder->IndexTokens());
  return std::unique_ptr<const Encoder>(std::move(encoder));
}

Status SentencePiece::IndexTokens() {
  const Status collision = InvalidArgument("tokenizer_limit", "token texts collide in the hash table");
  byte_token_.fill(kNoToken);
  size_t characters = 0;
  for (TokenId id = 0; id < vocabulary_.size(); ++id) characters += vocabulary_.Text(id).size();
  tokens_.Reserve(static_cast<size_t>(vocabulary_.size()));
  neighbours_.Reserve(std::min(characters, size_t{1} << 22));
  size_t pairs = 0;
  const auto text_of = [this](TokenId id) { return vocabulary_.Text(id); };
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const TokenType type = vocabulary_.Type(id);
    const std::string_view text = vocabulary_.Text(id);
    if (type == TokenType::kByte) byte_token_[static_cast<unsigned char>(vocabulary_.Piece(id)[0])] = id;
    const bool from_text = type == TokenType::kNormal || type == TokenType::kUserDefined ||
                           type == TokenType::kUnused;
    if (!from_text || text.empty()) continue;
    if (tokens_.Insert(text, id, text_of) == Inserted::kTooManyProbes) return collision;
    longest_ = std::max(longest_, text.size());
    int32_t left = -1;
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = DecodeAt(text, at);
      const int32_t right = CharacterNumber(c, text[at]);
      at += c.length;
      if (left >= 0) {
        const Inserted inserted = neighbours_.Insert(PairTable::Key(left, right), {});
        pairs += inserted == Inserted::kNew ? 1 : 0;
        if (inserted == Inserted::kTooManyProbes || pairs >= size_t{1} << 22) return collision;
      }
      left = right;
    }
  }
  return OkStatus();
}

TokenId SentencePiece::FindToken(std::string_view spelling) const {
  if (spelling.size() > longest_) return kNoToken;
  return tokens_.Find(spelling, [this](TokenId id) { return vocabulary_.Text(id); });
}

void SentencePiece::Encode(std::string_view text, std::vector<TokenId>& ids) const {
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
  const std::string_view all = marked;
  size_t begin = 0;
  int32_t left = -1;
  for (size_t at = 0; at < all.size();) {
    const CodePoint c = DecodeAt(all, at);
    const int32_t right = CharacterNumber(c, all[at]);
    const bool bridged = left >= 0 && neighbours_.Find(PairTable::Key(left, right)) != nullptr;
    if (at > begin && (!bridged || at - begin >= kLongestStretch)) {
      MergeStretch(all.substr(begin, at - begin), scratch, ids);
      begin = at;
    }
    left = right;
    at += c.length;
  }
  MergeStretch(all.substr(begin), scratch, ids);
}

void SentencePiece::MergeStretch(std::string_view text, Scratch& scratch,
                                 std::vector<TokenId>& ids) const {
  using Candidate = Scratch::Candidate;
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<Candidate>& queue = scratch.queue;
  symbols.clear();
  queue.clear();
  scratch.halves.clear();
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeAt(text, at);
    const auto index = static_cast<uint32_t>(symbols.size());
    symbols.push_back({static_cast<uint32_t>(at), index == 0 ? 0 : index - 1, index + 1,
                       FindToken(text.substr(at, c.length))});
    at += c.length;
  }
  const auto count = static_cast<uint32_t>(symbols.size());
  const auto offset = [&](uint32_t index) -> size_t {
    return index == count ? text.size() : symbols[index].offset;
  };
  const auto push = [&](uint32_t left) {
    const uint32_t right = symbols[left].end;
    if (right == count) return;
    const uint32_t end = symbols[right].end;
    const TokenId merged = FindToken(text.substr(offset(left), offset(end) - offset(left)));
    if (merged == kNoToken) return;
    if (vocabulary_.Type(merged) == TokenType::kUnused) {
      scratch.halves.emplace_back(merged, static_cast<uint32_t>(offset(right) - offset(left)));
    }
    queue.push_back({vocabulary_.Score(merged), left, end, merged});
    std::push_heap(queue.begin(), queue.end());
  };
  for (uint32_t i = 0; i + 1 < count; ++i) push(i);
  while (!queue.empty()) {
    const Candidate top = queue.front();
    std::pop_heap(queue.begin(), queue.end());
    queue.pop_back();
    Scratch::Symbol& left = symbols[top.left];
    if (left.end == 0) continue;  // swallowed
    const uint32_t right = left.end;
    if (right == count || symbols[right].end != top.end) continue;
    left.id = top.merged;
    left.end = top.end;
    symbols[right].end = 0;
    if (top.end < count) symbols[top.end].previous = top.left;
    if (top.left > 0) push(left.previous);
    push(top.left);
  }
  // The last way an unused token was found is the one it is taken apart by.
  std::stable_sort(scratch.halves.begin(), scratch.halves.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (uint32_t i = 0; i < count; i = symbols[i].end) {
    const TokenId id = symbols[i].id;
    if (id != kNoToken && vocabulary_.Type(id) != TokenType::kUnused) {
      ids.push_back(id);
      continue;
    }
    Emit(text.substr(offset(i), offset(symbols[i].end) - offset(i)), id, scratch, ids);
  }
}

// Appends `id`, taken apart while it is unused, or the bytes of `text` when there is no token.
void SentencePiece::Emit(std::string_view text, TokenId id, Scratch& scratch,
                         std::vector<TokenId>& ids) const {
  std::vector<std::pair<std::string_view, TokenId>> left_to_do = {{text, id}};
  while (!left_to_do.empty()) {
    const auto [spelling, token] = left_to_do.back();
    left_to_do.pop_back();
    if (token == kNoToken) {
      for (const char c : spelling) {
        const TokenId byte = byte_token_[static_cast<unsigned char>(c)];
        if (byte != kNoToken) {
          ids.push_back(byte);
        } else if (vocabulary_.special().unk != kNoToken) {
          ids.push_back(vocabulary_.special().unk);
          break;  // one for the whole character
        }
      }
      continue;
    }
    if (vocabulary_.Type(token) == TokenType::kUnused) {
      const auto half = std::upper_bound(
          scratch.halves.begin(), scratch.halves.end(), token,
          [](TokenId wanted, const std::pair<TokenId, uint32_t>& h) { return wanted < h.first; });
      if (half != scratch.halves.begin() && std::prev(half)->first == token) {
        const uint32_t middle = std::prev(half)->second;
        const std::string_view left = spelling.substr(0, middle);
        const std::string_view right = spelling.substr(middle);
        left_to_do.emplace_back(right, FindToken(right));
        left_to_do.emplace_back(left, FindToken(left));
        continue;
      }
    }
    ids.push_back(token);
  }
}

}  // namespace tutti::tokenizer
