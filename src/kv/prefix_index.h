// PrefixIndex: which blocks hold the KV of which tokens, so that a prompt with a known beginning
// need not be computed again. A trie whose nodes are blocks; a root per (tenant, salt,
// adapter).
//
// Owned by KvBlockPool; engine thread only. Knows token ids and block ids, nothing of the memory
// behind them. A node is found through a keyed 128-bit hash chained over its ancestors, and
// believed only after its root, its parent and each of its tokens have been compared: a collision
// costs time, never a wrong reuse. Everything is allocated at construction, one node per block,
// except the names of roots.
//
// Invariants: a referenced node has only referenced ancestors, since a holder of a block holds all
// blocks before it. So all unreferenced nodes can be evicted, leaves first, least recently used
// first.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "kv/block_table.h"
#include "kv/slot_pool.h"

namespace tutti::kv {

// SipHash-2-4 with a 128-bit result: a keyed hash whose collisions cannot be made without the key.
// Pure. Source: Aumasson, Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012; reference
// code for 128 bits.
using Hash128 = std::array<uint64_t, 2>;

Hash128 SipHash128(const Hash128& key, std::span<const uint8_t> data);

using RootId = int32_t;  // a partition of the index: one tenant under one salt and adapter
inline constexpr RootId kNoRoot = -1;

struct PrefixOptions {
  Hash128 key{};        // random per process
  int hash_bits = 128;  // tests force collisions with few bits
};

class PrefixIndex {
 public:
  PrefixIndex(int blocks, const PrefixOptions& options);

  // The root for (tenant, salt, adapter), made if need be and kept while it has holders or nodes.
  // `adapter`: the digest of what changes the model's keys and values; empty: nothing does.
  RootId AcquireRoot(std::string_view tenant, std::string_view salt, std::string_view adapter = {});
  void ReleaseRoot(RootId root);
  // Identifies the root's partition, also in other processes.
  const std::string& NameOf(RootId root) const { return roots_[static_cast<size_t>(root)].name; }

  struct Match {
    int full_blocks = 0;         // appended to the caller's list
    BlockId partial = kNoBlock;  // a block whose first `partial_tokens` slots continue the match
    int partial_tokens = 0;
  };
  // The longest known beginning of `tokens`; appends its full blocks to `blocks`. Takes no
  // references.
  Match Lookup(RootId root, std::span<const TokenId> tokens, std::vector<BlockId>& blocks) const;

  // What a hit needs in addition to blocks.
  struct Needs {
    const SlotPool* states = nullptr;         // a checkpoint at its end; null: none
    const SlotPool* window_blocks = nullptr;  // those of the blocks that the next token sees ...
    int window = 0;                           // ... with a window of so many tokens
    bool partial = true;                      // whether it may end in a block
  };
  // The longest known beginning of `tokens` that has what it needs; appends its full blocks to
  // `blocks`. With states, a partly filled block counts only as a whole.
  Match LookupWith(RootId root, std::span<const TokenId> tokens, const Needs& needs,
                   std::vector<BlockId>& blocks) const;
  // For people: why `tokens` are not found, or found in part only.
  struct Explanation {
    int known = 0;  // tokens of the longest known beginning, whether a hit may end there or not
    bool differs = false;     // other tokens are known to follow it, instead of those of `tokens`
    bool evicted = false;     // the block that follows it was evicted lately
    bool other_salt = false;  // another salt of the tenant has a longer beginning
  };
  // Looks at a bounded number of evictions and salts, so that `evicted` and `other_salt` may be
  // false although they hold. Nothing in it depends on other tenants.
  Explanation Explain(RootId root, std::span<const TokenId> tokens) const;

  // Records that `block` (referenced by the caller) holds `tokens` after `parent` (kNoBlock at the
  // beginning; otherwise indexed). Returns the indexed block: `block`, or an earlier one with the
  // same contents. Fewer than kBlockTokens tokens make a leaf that can be copied from but not
  // shared.
  BlockId Insert(RootId root, BlockId parent, std::span<const TokenId> tokens, BlockId block);

  bool indexed(BlockId block) const { return nodes_[static_cast<size_t>(block)].root != kNoRoot; }
  // Called by the pool when the first reference appears or the last one goes.
  void SetReferenced(BlockId block, bool referenced);
  // Whether the index has no block that continues this one.
  bool leaf(BlockId block) const { return at(block).first_child == kNoBlock; }
  // Forgets a leaf, referenced or not.
  void Remove(BlockId block);
  // Forgets the least recently used unreferenced leaf and returns its block, or kNoBlock.
  BlockId EvictLeastRecentlyUsed();

  int unreferenced() const { return unreferenced_; }  // nodes that can be evicted
  int size() const { return size_; }
  // Walks everything; false and a reason when an invariant does not hold. For tests.
  bool Check(std::string* why) const;

 private:
  struct Node {
    Hash128 hash{};
    RootId root = kNoRoot;  // kNoRoot: no node
    BlockId parent = kNoBlock;
    BlockId first_child = kNoBlock, next_sibling = kNoBlock, previous_sibling = kNoBlock;
    BlockId next_in_bucket = kNoBlock;
    int32_t heap_slot = -1;  // place in evictable_, or -1
    int32_t count = 0;       // tokens, <= kBlockTokens
    uint64_t last_use = 0;
    bool referenced = false;
    TokenId tokens[kBlockTokens];
  };
  struct Root {
    std::string name;  // empty = free slot
    Hash128 hash{};    // of the name: begins the chains of its blocks
    int holders = 0;   // callers and nodes
    BlockId first_child = kNoBlock;
  };

  Node& at(BlockId block) { return nodes_[static_cast<size_t>(block)]; }
  const Node& at(BlockId block) const { return nodes_[static_cast<size_t>(block)]; }
  Hash128 HashOf(RootId root, BlockId parent, std::span<const TokenId> tokens) const;
  size_t BucketOf(const Hash128& hash) const {
    return static_cast<size_t>(hash[0]) & (buckets_.size() - 1);
  }
  BlockId Find(RootId root, BlockId parent, std::span<const TokenId> tokens,
               const Hash128& hash) const;
  BlockId FirstChild(RootId root, BlockId parent) const;
  // Whether a block of the first of `tokens` after `parent` was evicted lately.
  bool EvictedLately(RootId root, BlockId parent, std::span<const TokenId> tokens) const;
  void Unlink(BlockId block);
  void UpdateEvictable(BlockId block);
  void HeapPush(BlockId block);
  void HeapRemove(BlockId block);
  void SiftUp(size_t slot);
  void SiftDown(size_t slot);
  bool Older(BlockId a, BlockId b) const { return at(a).last_use < at(b).last_use; }

  const PrefixOptions options_;
  std::vector<Node> nodes_;
  std::vector<BlockId> buckets_;
  std::vector<BlockId> evictable_;  // binary heap, oldest first
  std::vector<Root> roots_;
  std::unordered_map<std::string, RootId> root_ids_;
  // Hashes of the blocks that were evicted last, a ring; for Explain().
  std::vector<uint64_t> lately_evicted_;
  size_t next_evicted_ = 0;
  uint64_t clock_ = 0;
  int unreferenced_ = 0;
  int size_ = 0;
};

}  // namespace tutti::kv
