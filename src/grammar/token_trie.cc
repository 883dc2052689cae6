#include "grammar/token_trie.h"

#include <algorithm>
#include <numeric>

namespace tutti::grammar {

std::shared_ptr<const TokenTrie> TokenTrie::Create(std::vector<std::string> texts,
                                                   std::vector<TokenId> ends) {
  constexpr size_t kMaxIdsOfNode = UINT16_MAX;
  auto trie = std::make_shared<TokenTrie>();
  trie->texts_ = std::move(texts);
  trie->ends_ = std::move(ends);
  trie->is_end_.resize(trie->texts_.size());
  for (const TokenId id : trie->ends_) trie->is_end_[static_cast<size_t>(id)] = true;
  std::vector<TokenId> order;
  for (size_t i = 0; i < trie->texts_.size(); ++i) {
    const bool usable =
        !trie->texts_[i].empty() && !trie->is_end_[i] && trie->texts_[i].size() < UINT16_MAX;
    if (usable) order.push_back(static_cast<TokenId>(i));
  }
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    const int by_text = trie->text(a).compare(trie->text(b));
    return by_text != 0 ? by_text < 0 : a < b;
  });
  trie->nodes_.emplace_back();
  std::vector<uint32_t> path = {0};  // nodes from the root to the last token
  std::string_view last;
  for (const TokenId id : order) {
    const std::string_view text = trie->text(id);
    trie->longest_ = std::max(trie->longest_, text.size());
    const auto shared = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    while (path.size() > shared + 1) {
      trie->nodes_[path.back()].behind = static_cast<uint32_t>(trie->nodes_.size());
      path.pop_back();
    }
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(trie->nodes_.size()));
      trie->nodes_.push_back(
          {.depth = static_cast<uint16_t>(i + 1), .byte = static_cast<uint8_t>(text[i])});
    }
    Node& node = trie->nodes_[path.back()];
    if (node.ids == 0) node.first_id = static_cast<uint32_t>(trie->ids_.size());
    if (node.ids < kMaxIdsOfNode) {
      ++node.ids;
      trie->ids_.push_back(id);
    }
    last = text;
  }
  while (!path.empty()) {
    trie->nodes_[path.back()].behind = static_cast<uint32_t>(trie->nodes_.size());
    path.pop_back();
  }
  return trie;
}

size_t TokenTrie::memory_bytes() const {
  return nodes_.size() * sizeof(Node) + ids_.size() * sizeof(TokenId) +
         std::accumulate(texts_.begin(), texts_.end(), texts_.size() * sizeof(std::string),
                         [](size_t sum, const std::string& text) { return sum + text.size(); });
}

}  // namespace tutti::grammar
