#include "tokenizer/wordpiece.h"

#include <utility>

#include "base/utf8.h"
#include "tokenizer/character_rules.h"

namespace tutti::tokenizer {
namespace {

constexpr size_t kMaxSuffixNodes = size_t{1}
                                   << 22;  // characters of all tokens that no other shares
constexpr int32_t kWordRoot = 0;
constexpr int32_t kContinuationRoot = 1;

}  // namespace

Result<std::unique_ptr<const Encoder>> WordPiece::Create(const Vocabulary& vocabulary,
                                                         WordPieceOptions options) {
  std::unique_ptr<WordPiece> encoder(new WordPiece(vocabulary, std::move(options)));
  RETURN_IF_ERROR(encoder->IndexTokens());
  return std::unique_ptr<const Encoder>(std::move(encoder));
}

Status WordPiece::IndexTokens() {
  nodes_.resize(2);
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    if (vocabulary_.IsSpecial(id)) continue;
    const std::string_view piece = vocabulary_.Piece(id);
    const std::string_view prefix = options_.continuing_prefix;
    const bool continues = !prefix.empty() && piece.starts_with(prefix);
    if (prefix.empty() && !piece.empty()) RETURN_IF_ERROR(Insert(kContinuationRoot, piece, id));
    if (continues && piece.size() > prefix.size())
      RETURN_IF_ERROR(Insert(kContinuationRoot, piece.substr(prefix.size()), id));
    // Among BERT's own words none begins with "##": punctuation is always a word of its own.
    if (!(continues && options_.own_words) && !piece.empty())
      RETURN_IF_ERROR(Insert(kWordRoot, piece, id));
  }
  return OkStatus();
}

Status WordPiece::Insert(int32_t root, std::string_view spelling, TokenId id) {
  int32_t node = root;
  for (const char c : spelling) {
    const uint64_t key = PairTable::Key(node, static_cast<unsigned char>(c));
    if (const PairTable::Value* child = children_.Find(key); child != nullptr) {
      node = child->first;
      continue;
    }
    const auto fresh = static_cast<int32_t>(nodes_.size());
    if (nodes_.size() >= kMaxSuffixNodes) {
      return InvalidArgument("tokenizer_limit", "the WordPiece vocabulary needs more than " +
                                                    std::to_string(kMaxSuffixNodes) + " nodes");
    }
    if (children_.Insert(key, {fresh, 0}) != Inserted::kNew) {
      return InvalidArgument("tokenizer_limit", "token texts collide in the hash table");
    }
    nodes_.emplace_back();
    node = fresh;
  }
  nodes_[static_cast<size_t>(node)].id = id;
  return OkStatus();
}

void WordPiece::Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
                       std::vector<TokenId>& ids) const {
  if (options_.own_words) return EncodeOwnWords(text, ids);
  ForEachWord(text, splitter, at_start, [&](std::string_view word) {
    size_t characters = 0;
    for (size_t at = 0; at < word.size(); at += DecodeAt(word, at).length) ++characters;
    EncodeWord(word, characters, ids);
  });
}

// BertNormalizer, BertPreTokenizer and the model in one pass.
void WordPiece::EncodeOwnWords(std::string_view text, std::vector<TokenId>& ids) const {
  std::string word;
  size_t characters = 0;
  const auto flush = [&] {
    if (characters > 0) EncodeWord(word, characters, ids);
    word.clear();
    characters = 0;
  };
  const auto put = [&](char32_t c) {
    // A word above the limit is the unknown token in any case, so its text need not grow further.
    if (++characters <= options_.max_word_characters) AppendUtf8(c, word);
  };
  std::u32string folded;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeAt(text, at);
    at += c.length;
    if (IsBertRemoved(c.code_point)) continue;  // invalid bytes too: they read as U+FFFD
    if (IsBertSpace(c.code_point)) {
      flush();
      continue;
    }
    const bool ideograph = IsBertIdeograph(c.code_point);
    if (ideograph) flush();
    folded.clear();
    AppendBertFolded(c.code_point, options_.strip_accents, options_.lowercase, folded);
    for (const char32_t part : folded) {
      if (IsBertSpace(part)) {
        flush();
      } else if (IsBertPunctuation(part)) {
        flush();
        put(part);
        flush();
      } else {
        put(part);
      }
    }
    if (ideograph) flush();
  }
  flush();
}

void WordPiece::EncodeWord(std::string_view word, size_t characters,
                           std::vector<TokenId>& ids) const {
  const TokenId unknown = vocabulary_.special().unk;
  if (characters > options_.max_word_characters) {
    ids.push_back(unknown);
    return;
  }
  const size_t first = ids.size();
  int32_t root = kWordRoot;
  for (size_t at = 0; at < word.size();) {
    int32_t node = root;
    size_t end = at;
    TokenId best = kNoToken;
    for (size_t i = at; i < word.size(); ++i) {
      const PairTable::Value* child =
          children_.Find(PairTable::Key(node, static_cast<unsigned char>(word[i])));
      if (child == nullptr) break;
      node = child->first;
      if (const TokenId id = nodes_[static_cast<size_t>(node)].id; id != kNoToken) {
        best = id;
        end = i + 1;
      }
    }
    if (best == kNoToken) {
      ids.resize(first);
      ids.push_back(unknown);
      return;
    }
    ids.push_back(best);
    at = end;
    root = kContinuationRoot;
  }
}

}  // namespace tutti::tokenizer
