// ByteTrie: a compact trie that maps strings to ids byte by byte, for vocabularies of a quarter of
// a million pieces.
//
// Immutable after Create; any thread. A node has its children side by side, ordered by byte.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace tutti::tokenizer {

class ByteTrie {
 public:
  static constexpr int32_t kRoot = 0, kNone = -1;

  // The strings are different and not empty, and are not kept. Errors: tokenizer_limit.
  static Result<ByteTrie> Create(std::vector<std::pair<std::string_view, TokenId>> strings);

  // The child of `node` for a byte, or kNone.
  int32_t Next(int32_t node, unsigned char byte) const;
  // Id of the string that ends in `node`; kNoToken where none does.
  TokenId id(int32_t node) const { return nodes_[static_cast<size_t>(node)].id; }

 private:
  struct Node {
    int32_t first_child = 0;
    uint16_t children = 0;
    unsigned char byte = 0;  // that leads here
    TokenId id = kNoToken;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace tutti::tokenizer
