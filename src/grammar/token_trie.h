// TokenTrie: the bytes of a vocabulary's tokens as a tree in depth-first order, so that a walk that
// fails at a byte skips all tokens behind it.
//
// Immutable after Create(); any thread. Nodes are numbered from 1 in depth-first order; 0 is the
// root.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tutti::grammar {

class TokenTrie {
 public:
  // `texts`: the bytes of each token by id, up to kMaxTokenBytes; empty: never allowed. Special
  // tokens stand with their SpecialTokenBytes(). `ends`: tokens that end a text; their bytes do not
  // count.
  static std::shared_ptr<const TokenTrie> Create(std::vector<std::string> texts,
                                                 std::vector<TokenId> ends);

  size_t vocabulary() const { return texts_.size(); }
  size_t nodes() const { return nodes_.size(); }
  std::string_view text(TokenId id) const { return texts_[static_cast<size_t>(id)]; }
  std::span<const TokenId> ends() const { return ends_; }
  bool IsEnd(TokenId id) const { return is_end_[static_cast<size_t>(id)]; }
  size_t longest() const { return longest_; }  // bytes of a token

  uint8_t byte(uint32_t node) const { return nodes_[node].byte; }
  uint32_t depth(uint32_t node) const { return nodes_[node].depth; }
  // The first node behind those below `node`.
  uint32_t behind(uint32_t node) const { return nodes_[node].behind; }
  // Tokens whose bytes end in `node`.
  std::span<const TokenId> tokens(uint32_t node) const {
    return std::span(ids_).subspan(nodes_[node].first_id, nodes_[node].ids);
  }
  bool has_tokens(uint32_t node) const { return nodes_[node].ids > 0; }
  size_t memory_bytes() const;

 private:
  struct Node {
    uint32_t behind = 0;
    uint32_t first_id = 0;
    uint16_t ids = 0;
    uint16_t depth = 0;
    uint8_t byte = 0;
  };
  std::vector<Node> nodes_;
  std::vector<TokenId> ids_;
  std::vector<std::string> texts_;
  std::vector<TokenId> ends_;
  std::vector<bool> is_end_;
  size_t longest_ = 0;
};

}  // namespace tutti::grammar
