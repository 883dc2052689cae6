#include "tokenizer/byte_bpe.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merge_list.h"

namespace tutti::tokenizer {
namespace {

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
constexpr size_t kShortWord = 32;                 // symbols; up to here scanning beats the list
constexpr size_t kLongestLookup = 128;            // bytes; longer words are merged, not looked up
constexpr size_t kLongestWord = size_t{1} << 30;  // symbols; keeps positions in 32 bits

Status Invalid(std::string message) {
  return InvalidArgument("tokenizer_invalid", std::move(message));
}

}  // namespace

struct ByteBpe::Scratch {
  std::vector<TokenId> symbols;
  std::array<PairTable::Value, kShortWord> pairs;  // short words only: symbol i with i + 1
  MergeList<int32_t> list;                         // long words only
};

class ByteBpe::Words final : public WordSink {
 public:
  Words(const ByteBpe& bpe, std::vector<TokenId>& ids) : bpe_(bpe), ids_(ids) {}
  void OnWord(std::string_view word) override { bpe_.EncodeWord(word, scratch_, ids_); }

 private:
  const ByteBpe& bpe_;
  std::vector<TokenId>& ids_;
  Scratch scratch_;
};

Result<std::unique_ptr<const Encoder>> ByteBpe::Create(const Vocabulary& vocabulary,
                                                       const std::vector<std::string>& merges,
                                                       std::optional<bool> ignore_merges) {
  const std::optional<PreTokenizer> pre = FindPreTokenizer(vocabulary.pre());
  if (!pre) {
    std::string name;
    for (const char c : vocabulary.pre().substr(0, 64))
      name.push_back(c >= 0x20 && c < 0x7F ? c : '?');
    return InvalidArgument(
        "tokenizer_unsupported",
        "pre-tokenizer '" + name + "' is not known; guessing one would change every answer");
  }
  std::unique_ptr<ByteBpe> bpe(new ByteBpe(vocabulary, *pre));
  bpe->ignore_merges_ = ignore_merges.value_or(*pre == PreTokenizer::kLlama3);
  RETURN_IF_ERROR(bpe->TakeMerges(merges));
  RETURN_IF_ERROR(bpe->IndexWords());
  return std::unique_ptr<const Encoder>(std::move(bpe));
}

Status ByteBpe::TakeMerges(const std::vector<std::string>& merges) {
  if (merges.size() > kMaxMerges) {
    return InvalidArgument(
        "tokenizer_limit",
        std::to_string(merges.size()) + " merges; the limit is " + std::to_string(kMaxMerges));
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string spelling;
    AppendUtf8(ByteSymbol(static_cast<unsigned char>(byte)), spelling);
    const TokenId id = vocabulary_.Find(spelling);
    // Some vocabularies keep the symbols of bytes they never saw as added tokens; those are not
    // bytes.
    const bool is_byte = id != kNoToken && vocabulary_.Type(id) == TokenType::kNormal;
    byte_token_[byte] = is_byte ? id : kNoToken;
  }
  if (merges.empty()) {
    // Without merges every token of more bytes is out of reach: the list got lost on the way.
    for (TokenId id = 0; id < vocabulary_.size(); ++id) {
      if (vocabulary_.Type(id) == TokenType::kNormal && vocabulary_.Piece(id).size() > 1) {
        return Invalid("a byte-level vocabulary with longer tokens needs merges");
      }
    }
  }
  merges_.Reserve(merges.size());
  is_merged_.assign(static_cast<size_t>(vocabulary_.size()), false);
  std::string merged_text;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return Invalid("merge " + std::to_string(rank) +
                     " is not two pieces with a space between them");
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    merged_text.assign(left);
    merged_text.append(right);
    const TokenId left_id = vocabulary_.Find(left);
    const TokenId right_id = vocabulary_.Find(right);
    const TokenId merged_id = vocabulary_.Find(merged_text);
    if (left_id == kNoToken || right_id == kNoToken || merged_id == kNoToken) {
      return Invalid("merge " + std::to_string(rank) + " has a piece that is no token");
    }
    is_merged_[static_cast<size_t>(merged_id)] = true;
    const PairTable::Value value = {static_cast<int32_t>(rank), merged_id};
    // The first of two equal merges holds: the second could never be reached.
    if (merges_.Insert(PairTable::Key(left_id, right_id), value) == Inserted::kTooManyProbes) {
      return InvalidArgument("tokenizer_limit", "merges collide in the hash table");
    }
  }
  return OkStatus();
}

// Finds the words whose answer is one token: all tokens where the model ignores merges, else those
// that merging their own bytes leads to.
Status ByteBpe::IndexWords() {
  const auto piece_of = [this](TokenId id) { return vocabulary_.Piece(id); };
  words_.Reserve(static_cast<size_t>(vocabulary_.size()));
  Scratch scratch;
  std::vector<TokenId> merged;
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    if (vocabulary_.Type(id) != TokenType::kNormal) continue;
    const std::string_view piece = vocabulary_.Piece(id);
    if (piece.empty() || !BytesOfSpelling(vocabulary_.Text(id))) continue;
    if (!ignore_merges_) {
      // Nothing but a merge or a single byte leads to a token.
      if (piece.size() > kLongestLookup ||
          (piece.size() > 1 && !is_merged_[static_cast<size_t>(id)]))
        continue;
      merged.clear();
      MergeWord(piece, scratch, merged);
      if (merged.size() != 1 || merged[0] != id) continue;
    }
    if (words_.Insert(piece, id, piece_of) == Inserted::kTooManyProbes) {
      return InvalidArgument("tokenizer_limit", "token texts collide in the hash table");
    }
    longest_word_ = std::max(longest_word_, piece.size());
  }
  is_merged_ = {};
  return OkStatus();
}

void ByteBpe::Encode(std::string_view text, std::vector<TokenId>& ids) const {
  Words words(*this, ids);
  SplitWords(pre_, text, words);
}

TokenId ByteBpe::FindWord(std::string_view word) const {
  if (word.size() > longest_word_) return kNoToken;
  return words_.Find(word, [this](TokenId id) { return vocabulary_.Piece(id); });
}

void ByteBpe::EncodeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  if (const TokenId whole = FindWord(word); whole != kNoToken) {
    ids.push_back(whole);
    return;
  }
  for (size_t at = 0; at < word.size(); at += kLongestWord) {
    MergeWord(word.substr(at, kLongestWord), scratch, ids);
  }
}

void ByteBpe::MergeWord(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  scratch.symbols.clear();
  for (const char c : word) {
    const TokenId id = byte_token_[static_cast<unsigned char>(c)];
    if (id != kNoToken) scratch.symbols.push_back(id);
  }
  if (scratch.symbols.size() <= kShortWord) {
    MergeShort(scratch);
    ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
    return;
  }
  MergeLong(scratch, ids);
}

// Scans for the lowest rank until none is left: quadratic, over at most kShortWord symbols.
void ByteBpe::MergeShort(Scratch& scratch) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  auto& pairs = scratch.pairs;
  size_t count = symbols.size();
  const auto look_up = [&](size_t i) {
    const PairTable::Value* found = merges_.Find(PairTable::Key(symbols[i], symbols[i + 1]));
    pairs[i] = found != nullptr ? *found : PairTable::Value{kNoRank, kNoToken};
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].first < pairs[best].first) best = i;
    }
    if (pairs[best].first == kNoRank) break;
    symbols[best] = pairs[best].second;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i] = pairs[i + 1];
    }
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  symbols.resize(count);
}

void ByteBpe::MergeLong(Scratch& scratch, std::vector<TokenId>& ids) const {
  std::vector<TokenId>& symbols = scratch.list.symbols();
  symbols.swap(scratch.symbols);
  scratch.list.Merge([&](size_t left, size_t right, size_t) -> MergeList<int32_t>::Pair {
    const PairTable::Value* found = merges_.Find(PairTable::Key(symbols[left], symbols[right]));
    if (found == nullptr) return {};
    return {found->first, found->second};
  });
  for (size_t i = 0; i < symbols.size(); i = scratch.list.Next(i)) ids.push_back(symbols[i]);
}

}  // namespace tutti::tokenizer
