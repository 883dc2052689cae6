#include "tokenizer/bpe.h"

#include <utility>

#include "base/utf8.h"
#include "tokenizer/character_rules.h"

namespace tutti::tokenizer {
namespace {

constexpr size_t kLongestLookup = 128;            // bytes; longer words are merged, not looked up
constexpr size_t kLongestWord = size_t{1} << 30;  // symbols; keeps positions in 32 bits
constexpr size_t kLongestPieceLookup = 64;  // bytes; longer stretches are merged, not looked up

std::string ByteSpelling(size_t byte) {
  constexpr char kHex[] = "0123456789ABCDEF";
  return std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">";
}

}  // namespace

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
  }
  return OkStatus();
}

void ByteBpe::Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
                     std::vector<TokenId>& ids) const {
  Scratch scratch;
  ForEachWord(text, splitter, at_start,
              [&](std::string_view word) { EncodeWord(word, scratch, ids); });
}

TokenId ByteBpe::FindWord(std::string_view word) const {
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

Result<std::unique_ptr<const Encoder>> CharacterBpe::Create(const Vocabulary& vocabulary,
                                                            const std::vector<std::string>& merges,
                                                            CharacterBpeOptions options) {
  std::unique_ptr<CharacterBpe> bpe(new CharacterBpe(vocabulary, std::move(options)));
  ASSIGN_OR_RETURN(bpe->merges_,
                   MergeTable::Create(vocabulary, merges, bpe->options_.continuing_prefix));
  RETURN_IF_ERROR(bpe->IndexTokens());
  return std::unique_ptr<const Encoder>(std::move(bpe));
}

Status CharacterBpe::IndexTokens() {
  const Status collision =
      InvalidArgument("tokenizer_limit", "token texts collide in the hash table");
  spells_bytes_ = options_.byte_fallback;
  for (size_t byte = 0; byte < 256 && spells_bytes_; ++byte) {
    byte_token_[byte] = vocabulary_.Find(ByteSpelling(byte));
    spells_bytes_ = byte_token_[byte] != kNoToken && !vocabulary_.IsSpecial(byte_token_[byte]);
    // A merge of bytes could bridge any two characters.
    if (spells_bytes_ && merges_.IsPiece(byte_token_[byte])) stretches_.Stop();
  }
  const TokenId unknown = vocabulary_.unknown();
  if (unknown != kNoToken && merges_.IsPiece(unknown)) stretches_.Stop();
  if (!options_.continuing_prefix.empty() || !options_.end_of_word_suffix.empty())
    stretches_.Stop();
  tokens_.Reserve(static_cast<size_t>(vocabulary_.size()));
  const auto text_of = [this](TokenId id) { return vocabulary_.Text(id); };
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.Text(id);
    const TokenType type = vocabulary_.Type(id);
    if (text.empty() || (type != TokenType::kNormal && type != TokenType::kUserDefined)) continue;
    if (tokens_.Insert(text, id, text_of) == Inserted::kTooManyProbes) return collision;
    if (merges_.IsMerged(id) && !stretches_.Add(text)) return collision;
  }
  // With the tables complete, find the tokens that merging their own characters leads to.
  is_own_merge_.assign(static_cast<size_t>(vocabulary_.size()), false);
  if (!stretches_.cuts()) return OkStatus();
  Scratch scratch;
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.Text(id);
    if (text.empty() || text.size() > kLongestPieceLookup || FindToken(text) != id) continue;
    bool after_unknown = false;
    scratch.symbols.clear();
    AddSymbols(text, true, after_unknown, scratch);
    merges_.Merge(scratch);
    is_own_merge_[static_cast<size_t>(id)] =
        scratch.symbols.size() == 1 && scratch.symbols[0] == id;
  }
  return OkStatus();
}

TokenId CharacterBpe::FindToken(std::string_view spelling) const {
  return tokens_.Find(spelling, [this](TokenId id) { return vocabulary_.Text(id); });
}

void CharacterBpe::Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
                          std::vector<TokenId>& ids) const {
  Scratch scratch;
  ForEachWord(text, splitter, at_start,
              [&](std::string_view word) { EncodeWord(word, scratch, ids); });
}

void CharacterBpe::EncodeWord(std::string_view word, Scratch& scratch,
                              std::vector<TokenId>& ids) const {
  if (options_.ignore_merges) {
    if (const TokenId whole = FindToken(word); whole != kNoToken) {
      ids.push_back(whole);
      return;
    }
  }
  bool after_unknown = false;  // the character before was the unknown token
  stretches_.Cut(word, [&](std::string_view stretch) {
    EncodeStretch(stretch, !stretches_.cuts(), after_unknown, scratch, ids);
  });
}

void CharacterBpe::EncodeStretch(std::string_view text, bool is_word, bool& after_unknown,
                                 Scratch& scratch, std::vector<TokenId>& ids) const {
  if (stretches_.cuts() && text.size() <= kLongestPieceLookup) {
    const TokenId whole = FindToken(text);
    if (whole != kNoToken && is_own_merge_[static_cast<size_t>(whole)]) {
      ids.push_back(whole);
      after_unknown = false;
      return;
    }
  }
  scratch.symbols.clear();
  AddSymbols(text, is_word, after_unknown, scratch);
  merges_.Merge(scratch);
  ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
}

// `is_word`: the text is a whole word, so that prefix and suffix have their places.
void CharacterBpe::AddSymbols(std::string_view text, bool is_word, bool& after_unknown,
                              Scratch& scratch) const {
  std::string affixed;
  const bool has_affixes =
      is_word && (!options_.continuing_prefix.empty() || !options_.end_of_word_suffix.empty());
  for (size_t at = 0; at < text.size();) {
    const size_t length = DecodeAt(text, at).length;
    std::string_view character = text.substr(at, length);
    if (has_affixes) {
      affixed = at > 0 ? options_.continuing_prefix : std::string();
      affixed.append(character);
      if (at + length == text.size()) affixed.append(options_.end_of_word_suffix);
      character = affixed;
    }
    at += length;
    if (const TokenId id = FindToken(character); id != kNoToken) {
      scratch.symbols.push_back(id);
      after_unknown = false;
      continue;
    }
    if (spells_bytes_) {
      for (const char c : character)
        scratch.symbols.push_back(byte_token_[static_cast<unsigned char>(c)]);
      after_unknown = false;
      continue;
    }
    const TokenId unknown = vocabulary_.unknown();
    if (unknown == kNoToken || (after_unknown && options_.fuse_unknown)) continue;
    scratch.symbols.push_back(unknown);
    after_unknown = true;
  }
}

}  // namespace tutti::tokenizer
