#include "tokenizer/byte_bpe.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

namespace tutti::tokenizer {
namespace {

constexpr size_t kLongestLookup = 128;            // bytes; longer words are merged, not looked up
constexpr size_t kLongestWord = size_t{1} << 30;  // symbols; keeps positions in 32 bits

}  // namespace

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
                                                       bool ignore_merges) {
  std::unique_ptr<ByteBpe> bpe(new ByteBpe(vocabulary, ignore_merges));
  RETURN_IF_ERROR(bpe->FindBytes(merges));
  ASSIGN_OR_RETURN(bpe->merges_, MergeTable::Create(vocabulary, merges, ""));
  RETURN_IF_ERROR(bpe->IndexWords());
  return std::unique_ptr<const Encoder>(std::move(bpe));
}

Status ByteBpe::FindBytes(const std::vector<std::string>& merges) {
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
        return InvalidArgument("tokenizer_invalid",
                               "a byte-level vocabulary with longer tokens needs merges");
      }
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
      if (piece.size() > kLongestLookup || (piece.size() > 1 && !merges_.IsMerged(id))) continue;
      merged.clear();
      MergeWord(piece, scratch, merged);
      if (merged.size() != 1 || merged[0] != id) continue;
    }
    if (words_.Insert(piece, id, piece_of) == Inserted::kTooManyProbes) {
      return InvalidArgument("tokenizer_limit", "token texts collide in the hash table");
    }
    longest_word_ = std::max(longest_word_, piece.size());
  }
  return OkStatus();
}

void ByteBpe::Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
                     std::vector<TokenId>& ids) const {
  Words words(*this, ids);
  splitter.Split(text, at_start, words);
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
    if (id != kNoToken) {
      scratch.symbols.push_back(id);
    } else if (const TokenId unknown = vocabulary_.unknown(); unknown != kNoToken) {
      scratch.symbols.push_back(unknown);
    }
  }
  merges_.Merge(scratch);
  ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
}

}  // namespace tutti::tokenizer
