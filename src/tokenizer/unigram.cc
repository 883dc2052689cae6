#include "tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace tutti::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10;

constexpr size_t kMaxNodes = size_t{1} << 24;  // bytes of all strings that no other shares

}  // namespace

Result<ByteTrie> ByteTrie::Create(std::vector<std::pair<std::string_view, TokenId>> strings) {
  std::sort(strings.begin(), strings.end());
  ByteTrie trie;
  // Breadth first, so that the children of a node come out side by side. Of each node that has any:
  // the strings that go through it.
  struct Open {
    int32_t node;
    size_t begin, end, depth;
  };
  std::vector<Open> level = {{kRoot, 0, strings.size(), 0}};
  std::vector<Open> next;
  while (!level.empty()) {
    next.clear();
    for (Open open : level) {
      // Equal strings are sorted by id: the last one counts.
      while (open.begin < open.end && strings[open.begin].first.size() == open.depth) {
        trie.nodes_[static_cast<size_t>(open.node)].id = strings[open.begin].second;
        ++open.begin;
      }
      const auto first = static_cast<int32_t>(trie.nodes_.size());
      trie.nodes_[static_cast<size_t>(open.node)].first_child = first;
      for (size_t at = open.begin; at < open.end;) {
        const char byte = strings[at].first[open.depth];
        const size_t begin = at;
        while (at < open.end && strings[at].first[open.depth] == byte) ++at;
        if (trie.nodes_.size() >= kMaxNodes) {
          return InvalidArgument("tokenizer_limit", "the pieces need more than " +
                                                        std::to_string(kMaxNodes) + " nodes");
        }
        next.push_back({static_cast<int32_t>(trie.nodes_.size()), begin, at, open.depth + 1});
        trie.nodes_.push_back({0, 0, static_cast<unsigned char>(byte), kNoToken});
      }
      trie.nodes_[static_cast<size_t>(open.node)].children =
          static_cast<uint16_t>(trie.nodes_.size() - static_cast<size_t>(first));
    }
    level.swap(next);
  }
  trie.nodes_.shrink_to_fit();
  return trie;
}

int32_t ByteTrie::Next(int32_t node, unsigned char byte) const {
  const Node& parent = nodes_[static_cast<size_t>(node)];
  const Node* first = nodes_.data() + parent.first_child;
  const Node* last = first + parent.children;
  const Node* child = std::lower_bound(
      first, last, byte, [](const Node& candidate, unsigned char b) { return candidate.byte < b; });
  if (child == last || child->byte != byte) return kNone;
  return static_cast<int32_t>(child - nodes_.data());
}

struct Unigram::Best {
  double score = 0;
  size_t begin = std::string_view::npos;  // of the piece that ends here; npos: no way leads here
  TokenId id = kNoToken;
};

struct Unigram::Scratch {
  std::vector<Best> best;
  struct Cut {
    TokenId id;
    size_t begin, end;
  };
  std::vector<Cut> cuts;
};

Result<std::unique_ptr<const Encoder>> Unigram::Create(const Vocabulary& vocabulary,
                                                       std::vector<double> scores,
                                                       bool byte_fallback) {
  std::unique_ptr<Unigram> encoder(new Unigram(vocabulary, std::move(scores)));
  encoder->spells_bytes_ = byte_fallback;
  RETURN_IF_ERROR(encoder->IndexPieces());
  return std::unique_ptr<const Encoder>(std::move(encoder));
}

Status Unigram::IndexPieces() {
  const size_t scored = scores_.size();
  if (scored == 0 || scored > static_cast<size_t>(vocabulary_.size()))
    return InvalidArgument("tokenizer_invalid", "a unigram model needs a score for each piece");
  if (vocabulary_.special().unk == kNoToken)
    return InvalidArgument("tokenizer_invalid", "a unigram model needs an unknown token");
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string_view, TokenId>> pieces;
  for (size_t i = 0; i < scored; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!std::isfinite(scores_[i])) {
      return InvalidArgument("tokenizer_invalid",
                             "the score of token " + std::to_string(id) + " is not finite");
    }
    least = std::min(least, scores_[i]);
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
  constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256 && spells_bytes_; ++byte) {
    byte_token_[byte] =
        vocabulary_.Find(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    spells_bytes_ = byte_token_[byte] != kNoToken && !vocabulary_.IsSpecial(byte_token_[byte]);
  }
  return OkStatus();
}

void Unigram::Encode(std::string_view text, const PreTokenizer& splitter, bool at_start,
                     std::vector<TokenId>& ids) const {
  Scratch scratch;
  ForEachWord(text, splitter, at_start,
              [&](std::string_view word) { EncodeWord(word, scratch, ids); });
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
      offer(at, end, scores_[static_cast<size_t>(id)], id);
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
