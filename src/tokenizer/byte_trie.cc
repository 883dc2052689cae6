#include "tokenizer/byte_trie.h"

#include <algorithm>
#include <string>

namespace tutti::tokenizer {
namespace {

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
      if (open.begin < open.end && strings[open.begin].first.size() == open.depth) {
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

}  // namespace tutti::tokenizer
