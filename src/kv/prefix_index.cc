#include "kv/prefix_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/check.h"

namespace tutti::kv {
namespace {

uint64_t Rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

struct SipState {
  uint64_t v0, v1, v2, v3;
  void Round() {
    v0 += v1, v1 = Rotate(v1, 13), v1 ^= v0, v0 = Rotate(v0, 32);
    v2 += v3, v3 = Rotate(v3, 16), v3 ^= v2;
    v0 += v3, v3 = Rotate(v3, 21), v3 ^= v0;
    v2 += v1, v1 = Rotate(v1, 17), v1 ^= v2, v2 = Rotate(v2, 32);
  }
  uint64_t Fold() {
    for (int i = 0; i < 4; ++i) Round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

uint64_t LittleEndian(const uint8_t* bytes, size_t count) {
  uint64_t word = 0;
  for (size_t i = 0; i < count; ++i) word |= uint64_t{bytes[i]} << (8 * i);
  return word;
}

// Siblings looked at for a partial match. The newest come first, so a few find the useful ones.
constexpr int kSiblingsScanned = 32;

// Evicted blocks that are remembered: four times those that there are, within these limits.
constexpr size_t kLeastRemembered = 1024, kMostRemembered = 65536;
// Salts of a tenant that an explanation looks at.
constexpr int kSaltsExplained = 64;

uint64_t ShortHash(const Hash128& hash) { return hash[0] ^ Rotate(hash[1], 32); }

int CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < limit && a[i] == b[i]) ++i;
  return static_cast<int>(i);
}

// What the names of all roots of a tenant and an adapter begin with.
std::string_view PartBeforeSalt(std::string_view name) {
  size_t end = 0;
  for (int part = 0; part < 2; ++part) {
    const size_t colon = name.find(':', end);
    end = colon + 1 + std::stoul(std::string(name.substr(end, colon - end)));
  }
  return name.substr(0, end);
}

std::string RootName(std::string_view tenant, std::string_view salt, std::string_view adapter) {
  // The lengths keep ("ab", "c") apart from ("a", "bc"); never empty.
  return fmt::format("{}:{}{}:{}{}", tenant.size(), tenant, adapter.size(), adapter, salt);
}

}  // namespace

Hash128 SipHash128(const Hash128& key, std::span<const uint8_t> data) {
  SipState s{key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL ^ 0xee,
             key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL};
  const size_t whole = data.size() & ~size_t{7};
  for (size_t i = 0; i < whole; i += 8) {
    const uint64_t word = LittleEndian(data.data() + i, 8);
    s.v3 ^= word;
    s.Round(), s.Round();
    s.v0 ^= word;
  }
  const uint64_t last =
      LittleEndian(data.data() + whole, data.size() - whole) | (uint64_t{data.size()} << 56);
  s.v3 ^= last;
  s.Round(), s.Round();
  s.v0 ^= last;

  Hash128 hash;
  s.v2 ^= 0xee;
  hash[0] = s.Fold();
  s.v1 ^= 0xdd;
  hash[1] = s.Fold();
  return hash;
}

PrefixIndex::PrefixIndex(int blocks, const PrefixOptions& options)
    : options_(options),
      nodes_(static_cast<size_t>(blocks)),
      buckets_(std::bit_ceil(static_cast<size_t>(std::max(blocks, 1))), kNoBlock) {
  CHECK(options.hash_bits >= 1 && options.hash_bits <= 128);
  evictable_.reserve(static_cast<size_t>(blocks));
  lately_evicted_.resize(
      std::clamp(4 * static_cast<size_t>(blocks), kLeastRemembered, kMostRemembered));
}

RootId PrefixIndex::AcquireRoot(std::string_view tenant, std::string_view salt,
                                std::string_view adapter) {
  std::string name = RootName(tenant, salt, adapter);
  if (const auto it = root_ids_.find(name); it != root_ids_.end()) {
    ++roots_[static_cast<size_t>(it->second)].holders;
    return it->second;
  }
  size_t slot = 0;
  while (slot < roots_.size() && !roots_[slot].name.empty()) ++slot;
  if (slot == roots_.size()) roots_.emplace_back();
  roots_[slot].name = name;
  // The name is hashed, not the slot, which another tenant may have next.
  roots_[slot].hash =
      SipHash128(options_.key, {reinterpret_cast<const uint8_t*>(name.data()), name.size()});
  roots_[slot].holders = 1;
  const auto id = static_cast<RootId>(slot);
  root_ids_.emplace(std::move(name), id);
  return id;
}

void PrefixIndex::ReleaseRoot(RootId root) {
  Root& r = roots_[static_cast<size_t>(root)];
  CHECK_GT(r.holders, 0);
  if (--r.holders > 0) return;
  CHECK_EQ(r.first_child, kNoBlock);
  root_ids_.erase(r.name);
  r.name.clear();
}

Hash128 PrefixIndex::HashOf(RootId root, BlockId parent, std::span<const TokenId> tokens) const {
  uint8_t message[sizeof(Hash128) + sizeof(int32_t) * kBlockTokens];
  const Hash128 before =
      parent == kNoBlock ? roots_[static_cast<size_t>(root)].hash : at(parent).hash;
  std::memcpy(message, before.data(), sizeof(before));
  std::memcpy(message + sizeof(before), tokens.data(), tokens.size_bytes());
  Hash128 hash = SipHash128(options_.key, {message, sizeof(before) + tokens.size_bytes()});
  if (options_.hash_bits < 64) {
    hash = {hash[0] & ((uint64_t{1} << options_.hash_bits) - 1), 0};
  } else if (options_.hash_bits < 128) {
    hash[1] &= (uint64_t{1} << (options_.hash_bits - 64)) - 1;
  }
  return hash;
}

BlockId PrefixIndex::Find(RootId root, BlockId parent, std::span<const TokenId> tokens,
                          const Hash128& hash) const {
  for (BlockId b = buckets_[BucketOf(hash)]; b != kNoBlock; b = at(b).next_in_bucket) {
    const Node& node = at(b);
    if (node.hash == hash && node.root == root && node.parent == parent &&
        node.count == static_cast<int>(tokens.size()) &&
        std::equal(tokens.begin(), tokens.end(), node.tokens)) {
      return b;
    }
  }
  return kNoBlock;
}

BlockId PrefixIndex::FirstChild(RootId root, BlockId parent) const {
  return parent == kNoBlock ? roots_[static_cast<size_t>(root)].first_child
                            : at(parent).first_child;
}

PrefixIndex::Match PrefixIndex::Lookup(RootId root, std::span<const TokenId> tokens,
                                       std::vector<BlockId>& blocks) const {
  Match match;
  BlockId parent = kNoBlock;
  while (tokens.size() >= kBlockTokens && FirstChild(root, parent) != kNoBlock) {
    const auto run = tokens.first(kBlockTokens);
    const BlockId found = Find(root, parent, run, HashOf(root, parent, run));
    if (found == kNoBlock) break;
    blocks.push_back(found);
    ++match.full_blocks;
    parent = found;
    tokens = tokens.subspan(kBlockTokens);
  }
  if (tokens.empty()) return match;
  int scanned = 0;
  for (BlockId b = FirstChild(root, parent); b != kNoBlock && scanned < kSiblingsScanned;
       b = at(b).next_sibling) {
    ++scanned;
    const int common = CommonPrefix(tokens, {at(b).tokens, static_cast<size_t>(at(b).count)});
    if (common > match.partial_tokens) {
      match.partial_tokens = common;
      match.partial = b;
    }
  }
  return match;
}

PrefixIndex::Match PrefixIndex::LookupWith(RootId root, std::span<const TokenId> tokens,
                                           const Needs& needs, std::vector<BlockId>& blocks) const {
  Match match;
  const size_t first = blocks.size();
  const auto has_state = [&](BlockId b) {
    return needs.states == nullptr || needs.states->Of(b) != kNoSlot;
  };
  const auto has_window = [&](BlockId b) {
    return needs.window_blocks == nullptr || needs.window_blocks->Of(b) != kNoSlot;
  };
  int unbroken = 0;  // the blocks on the way here that follow one another and have window blocks
  const auto sees_all = [&](int depth, int extra) {
    const int end = depth * kBlockTokens + extra;
    const int first_key = end >= needs.window ? end - needs.window + 1 : 0;
    return needs.window_blocks == nullptr || depth - unbroken <= first_key / kBlockTokens;
  };
  BlockId parent = kNoBlock;
  for (int depth = 0;; ++depth) {
    int known = match.full_blocks == depth ? match.partial_tokens : 0;
    int scanned = 0;
    for (BlockId b = needs.partial ? FirstChild(root, parent) : kNoBlock;
         b != kNoBlock && scanned < kSiblingsScanned; b = at(b).next_sibling, ++scanned) {
      const Node& node = at(b);
      const int common = CommonPrefix(tokens, {node.tokens, static_cast<size_t>(node.count)});
      const bool whole = common == node.count;
      if (common <= known || common == kBlockTokens || (needs.states != nullptr && !whole) ||
          !has_state(b) || !has_window(b) || !sees_all(depth, common))
        continue;
      match = {.full_blocks = depth, .partial = b, .partial_tokens = common};
      known = common;
    }
    if (tokens.size() < kBlockTokens || FirstChild(root, parent) == kNoBlock) break;
    const auto run = tokens.first(kBlockTokens);
    const BlockId found = Find(root, parent, run, HashOf(root, parent, run));
    if (found == kNoBlock) break;
    blocks.push_back(found);
    unbroken = has_window(found) ? unbroken + 1 : 0;
    if (has_state(found) && sees_all(depth + 1, 0)) match = {.full_blocks = depth + 1};
    parent = found;
    tokens = tokens.subspan(kBlockTokens);
  }
  blocks.resize(first + static_cast<size_t>(match.full_blocks));
  return match;
}

bool PrefixIndex::EvictedLately(RootId root, BlockId parent,
                                std::span<const TokenId> tokens) const {
  const auto evicted = [&](size_t count) {
    const uint64_t hash = ShortHash(HashOf(root, parent, tokens.first(count)));
    return std::find(lately_evicted_.begin(), lately_evicted_.end(), hash) != lately_evicted_.end();
  };
  if (tokens.size() >= kBlockTokens) return evicted(kBlockTokens);
  for (size_t count = tokens.size(); count > 0; --count) {  // a partly filled block
    if (evicted(count)) return true;
  }
  return false;
}

PrefixIndex::Explanation PrefixIndex::Explain(RootId root, std::span<const TokenId> tokens) const {
  Explanation out;
  std::vector<BlockId> blocks;
  const Match match = Lookup(root, tokens, blocks);
  out.known = match.full_blocks * kBlockTokens + match.partial_tokens;
  const BlockId parent = blocks.empty() ? kNoBlock : blocks.back();
  const auto rest = tokens.subspan(static_cast<size_t>(match.full_blocks) * kBlockTokens);
  // A partly matching block that is used up continues nothing else.
  const BlockId next = match.partial != kNoBlock ? match.partial : FirstChild(root, parent);
  out.differs = next != kNoBlock && match.partial_tokens < at(next).count &&
                static_cast<size_t>(match.partial_tokens) < rest.size();
  out.evicted = !rest.empty() && EvictedLately(root, parent, rest);
  const std::string_view begin = PartBeforeSalt(NameOf(root));
  int looked = 0;
  for (size_t i = 0; i < roots_.size() && looked < kSaltsExplained && !out.other_salt; ++i) {
    if (static_cast<RootId>(i) == root || !roots_[i].name.starts_with(begin)) continue;
    ++looked;
    blocks.clear();
    const Match other = Lookup(static_cast<RootId>(i), tokens, blocks);
    out.other_salt = other.full_blocks * kBlockTokens + other.partial_tokens > out.known;
  }
  return out;
}

BlockId PrefixIndex::Insert(RootId root, BlockId parent, std::span<const TokenId> tokens,
                            BlockId block) {
  CHECK(!tokens.empty() && tokens.size() <= kBlockTokens);
  CHECK(parent == kNoBlock || (at(parent).root == root && at(parent).count == kBlockTokens));
  if (indexed(block)) return block;
  const Hash128 hash = HashOf(root, parent, tokens);
  if (const BlockId found = Find(root, parent, tokens, hash); found != kNoBlock) return found;

  Node& node = at(block);
  node.hash = hash;
  node.root = root;
  node.parent = parent;
  node.first_child = kNoBlock;
  node.previous_sibling = kNoBlock;
  node.count = static_cast<int32_t>(tokens.size());
  node.last_use = ++clock_;
  node.referenced = true;
  std::copy(tokens.begin(), tokens.end(), node.tokens);

  BlockId& head =
      parent == kNoBlock ? roots_[static_cast<size_t>(root)].first_child : at(parent).first_child;
  node.next_sibling = head;
  if (head != kNoBlock) at(head).previous_sibling = block;
  head = block;
  if (parent != kNoBlock) UpdateEvictable(parent);

  BlockId& bucket = buckets_[BucketOf(hash)];
  node.next_in_bucket = bucket;
  bucket = block;
  ++roots_[static_cast<size_t>(root)].holders;
  ++size_;
  return block;
}

void PrefixIndex::SetReferenced(BlockId block, bool referenced) {
  Node& node = at(block);
  CHECK(node.root != kNoRoot && node.referenced != referenced);
  node.referenced = referenced;
  node.last_use = ++clock_;
  unreferenced_ += referenced ? -1 : 1;
  UpdateEvictable(block);
}

void PrefixIndex::UpdateEvictable(BlockId block) {
  const Node& node = at(block);
  const bool evictable = !node.referenced && node.first_child == kNoBlock;
  if (evictable && node.heap_slot < 0) HeapPush(block);
  if (!evictable && node.heap_slot >= 0) HeapRemove(block);
}

BlockId PrefixIndex::EvictLeastRecentlyUsed() {
  if (evictable_.empty()) return kNoBlock;
  const BlockId block = evictable_.front();
  lately_evicted_[next_evicted_] = ShortHash(at(block).hash);
  next_evicted_ = (next_evicted_ + 1) % lately_evicted_.size();
  Remove(block);
  return block;
}

void PrefixIndex::Remove(BlockId block) {
  CHECK(indexed(block) && leaf(block));
  if (at(block).heap_slot >= 0) HeapRemove(block);
  Unlink(block);
}

void PrefixIndex::Unlink(BlockId block) {
  Node& node = at(block);
  const RootId root = node.root;
  const BlockId parent = node.parent;

  BlockId* link = &buckets_[BucketOf(node.hash)];
  while (*link != block) link = &at(*link).next_in_bucket;
  *link = node.next_in_bucket;

  if (node.previous_sibling != kNoBlock) {
    at(node.previous_sibling).next_sibling = node.next_sibling;
  } else if (parent != kNoBlock) {
    at(parent).first_child = node.next_sibling;
  } else {
    roots_[static_cast<size_t>(root)].first_child = node.next_sibling;
  }
  if (node.next_sibling != kNoBlock) at(node.next_sibling).previous_sibling = node.previous_sibling;

  node.root = kNoRoot;
  if (!node.referenced) --unreferenced_;
  --size_;
  if (parent != kNoBlock) UpdateEvictable(parent);
  ReleaseRoot(root);
}

void PrefixIndex::HeapPush(BlockId block) {
  evictable_.push_back(block);
  at(block).heap_slot = static_cast<int32_t>(evictable_.size()) - 1;
  SiftUp(evictable_.size() - 1);
}

void PrefixIndex::HeapRemove(BlockId block) {
  const auto slot = static_cast<size_t>(at(block).heap_slot);
  at(block).heap_slot = -1;
  const BlockId last = evictable_.back();
  evictable_.pop_back();
  if (last == block) return;
  evictable_[slot] = last;
  at(last).heap_slot = static_cast<int32_t>(slot);
  SiftUp(slot);
  SiftDown(static_cast<size_t>(at(last).heap_slot));
}

void PrefixIndex::SiftUp(size_t slot) {
  while (slot > 0) {
    const size_t up = (slot - 1) / 2;
    if (!Older(evictable_[slot], evictable_[up])) break;
    std::swap(evictable_[slot], evictable_[up]);
    at(evictable_[slot]).heap_slot = static_cast<int32_t>(slot);
    slot = up;
  }
  at(evictable_[slot]).heap_slot = static_cast<int32_t>(slot);
}

void PrefixIndex::SiftDown(size_t slot) {
  for (;;) {
    size_t oldest = slot;
    for (size_t child = 2 * slot + 1; child <= 2 * slot + 2 && child < evictable_.size(); ++child) {
      if (Older(evictable_[child], evictable_[oldest])) oldest = child;
    }
    if (oldest == slot) break;
    std::swap(evictable_[slot], evictable_[oldest]);
    at(evictable_[slot]).heap_slot = static_cast<int32_t>(slot);
    slot = oldest;
  }
  at(evictable_[slot]).heap_slot = static_cast<int32_t>(slot);
}

bool PrefixIndex::Check(std::string* why) const {
  const auto fail = [why](std::string text) {
    if (why != nullptr) *why = std::move(text);
    return false;
  };
  int size = 0, unreferenced = 0;
  size_t evictable = 0;
  std::vector<int> children(nodes_.size(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.root == kNoRoot) {
      if (node.heap_slot >= 0) return fail("a block without node is in the heap");
      continue;
    }
    ++size;
    unreferenced += node.referenced ? 0 : 1;
    if (node.heap_slot >= 0) {
      ++evictable;
      if (evictable_[static_cast<size_t>(node.heap_slot)] != static_cast<BlockId>(i))
        return fail("heap slot is stale");
    }
    if ((node.heap_slot >= 0) != (!node.referenced && node.first_child == kNoBlock)) {
      return fail("block " + std::to_string(i) +
                  " is in the heap without being a free leaf, or the reverse");
    }
    if (node.parent != kNoBlock) {
      const Node& parent = at(node.parent);
      if (parent.root != node.root) return fail("parent of another root");
      if (node.referenced && !parent.referenced)
        return fail("a referenced node under an unreferenced one");
      ++children[static_cast<size_t>(node.parent)];
    }
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    int listed = 0;
    if (nodes_[i].root == kNoRoot) continue;
    for (BlockId b = nodes_[i].first_child; b != kNoBlock; b = at(b).next_sibling) ++listed;
    if (listed != children[i])
      return fail("child list of block " + std::to_string(i) + " is wrong");
  }
  if (size != size_ || unreferenced != unreferenced_ || evictable != evictable_.size())
    return fail("counters are wrong");
  for (size_t i = 1; i < evictable_.size(); ++i) {
    if (Older(evictable_[i], evictable_[(i - 1) / 2])) return fail("heap order is wrong");
  }
  return true;
}

}  // namespace tutti::kv
