#include "kv/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::kv {

KvReservation::KvReservation(KvReservation&& other) noexcept { *this = std::move(other); }

KvReservation& KvReservation::operator=(KvReservation&& other) noexcept {
  if (this != &other) {
    Return();
    pool_ = std::exchange(other.pool_, nullptr);
    table_ = other.table_;
    count_ = other.count_;
    from_promise_ = other.from_promise_;
  }
  return *this;
}

void KvReservation::Return() {
  KvBlockPool* pool = std::exchange(pool_, nullptr);
  if (pool == nullptr) return;
  for (int i = 0; i < count_; ++i) pool->PopBack(*table_);
  table_->promised_ += from_promise_;
  pool->promised_ += from_promise_;
}

KvBlockPool::KvBlockPool(int blocks, const PrefixOptions& prefix, int states, int window_blocks)
    : references_(static_cast<size_t>(blocks), 0),
      generations_(static_cast<size_t>(blocks), 0),
      index_(blocks, prefix),
      states_(states, blocks),
      window_blocks_(window_blocks, blocks) {
  free_.reserve(static_cast<size_t>(blocks));
  for (BlockId b = blocks - 1; b >= 0; --b) free_.push_back(b);  // block 0 is taken first
}

Result<KvReservation> KvBlockPool::Reserve(BlockTable& table, int count, uint32_t owner) {
  const int from_promise = std::min(count, table.promised_);
  if (fault_ && fault_(owner)) {
    return Unavailable("kv_exhausted",
                       "KV allocation of " + std::to_string(count) + " blocks failed");
  }
  if (count - from_promise > available()) {
    return Unavailable("kv_exhausted", "needs " + std::to_string(count) + " KV blocks, " +
                                           std::to_string(available()) + " of " +
                                           std::to_string(total()) + " are available");
  }
  table.promised_ -= from_promise;
  promised_ -= from_promise;
  for (int i = 0; i < count; ++i) {
    const BlockId block = Take();
    references_[static_cast<size_t>(block)] = 1;
    table.ids_.push_back(block);
    table.generations_.push_back(generation(block));
  }
  KvReservation reservation;
  reservation.pool_ = this;
  reservation.table_ = &table;
  reservation.count_ = count;
  reservation.from_promise_ = from_promise;
  return reservation;
}

bool KvBlockPool::Promise(BlockTable& table, int count) {
  if (count > available()) return false;
  table.promised_ += count;
  promised_ += count;
  return true;
}

void KvBlockPool::DropPromise(BlockTable& table) { promised_ -= std::exchange(table.promised_, 0); }

void KvBlockPool::Share(BlockTable& table, std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    Reference(block);
    table.ids_.push_back(block);
    table.generations_.push_back(generation(block));
  }
}

void KvBlockPool::Release(BlockTable& table) {
  DropPromise(table);
  while (!table.empty()) PopBack(table);
}

BlockId KvBlockPool::Index(BlockTable& table, int i, RootId root, std::span<const TokenId> tokens) {
  const auto slot = static_cast<size_t>(i);
  const BlockId block = table.ids_[slot];
  const BlockId canonical =
      index_.Insert(root, i == 0 ? kNoBlock : table.ids_[slot - 1], tokens, block);
  if (canonical == block) return block;
  // A block with the same tokens after the same prefix has the same bits: use that one instead.
  if (tokens.size() < kBlockTokens) return canonical;  // a partial block is only ever copied from
  Reference(canonical);
  table.ids_[slot] = canonical;
  table.generations_[slot] = generation(canonical);
  Unreference(block);
  return canonical;
}

void KvBlockPool::Forget(const BlockTable& table, int first) {
  for (int i = table.size() - 1; i >= first; --i) {
    const BlockId block = table[i];
    if (!index_.indexed(block)) continue;
    if (references(block) > 1 || !index_.leaf(block)) return;
    index_.Remove(block);
    states_.Forget(block);
    window_blocks_.Forget(block);
  }
}

void KvBlockPool::PopBack(BlockTable& table) {
  const BlockId block = table.ids_.back();
  CHECK_EQ(table.generations_.back(), generation(block));
  table.ids_.pop_back();
  table.generations_.pop_back();
  Unreference(block);
}

void KvBlockPool::Reference(BlockId block) {
  const int before = references_[static_cast<size_t>(block)]++;
  if (before > 0) return;
  CHECK(index_.indexed(block)) << "block " << block << " is free and cannot be shared";
  index_.SetReferenced(block, true);
}

void KvBlockPool::Unreference(BlockId block) {
  CHECK_GT(references(block), 0);
  if (--references_[static_cast<size_t>(block)] > 0) return;
  if (index_.indexed(block)) {
    index_.SetReferenced(block, false);
    return;
  }
  ++generations_[static_cast<size_t>(block)];
  free_.push_back(block);
}

BlockId KvBlockPool::Take() {
  if (!free_.empty()) {
    const BlockId block = free_.back();
    free_.pop_back();
    return block;
  }
  const BlockId block = index_.EvictLeastRecentlyUsed();
  CHECK(block != kNoBlock) << "the pool promised a block it does not have";
  states_.Forget(block);
  window_blocks_.Forget(block);
  ++generations_[static_cast<size_t>(block)];
  ++evicted_;
  return block;
}

}  // namespace tutti::kv
