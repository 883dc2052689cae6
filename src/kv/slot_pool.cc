#include "kv/slot_pool.h"

#include <utility>

#include "base/check.h"

namespace tutti::kv {

SlotPool::SlotPool(int slots, int blocks)
    : slots_(static_cast<size_t>(slots)),
      by_block_(slots > 0 ? static_cast<size_t>(blocks) : 0, kNoSlot) {
  free_.reserve(static_cast<size_t>(slots));
  for (SlotId id = slots - 1; id >= 0; --id) free_.push_back(id);  // slot 0 is taken first
}

SlotId SlotPool::Take() {
  if (free_.empty()) {
    if (oldest_ == kNoSlot) return kNoSlot;
    ++evicted_;
    Forget(at(oldest_).block);
  }
  const SlotId id = free_.back();
  free_.pop_back();
  at(id).references = 1;
  return id;
}

void SlotPool::Reference(SlotId id) {
  Slot& slot = at(id);
  if (slot.references++ > 0) return;
  CHECK(slot.block != kNoBlock) << "slot " << id << " is free and cannot be shared";
  Uncache(id);
}

void SlotPool::Drop(SlotId id) {
  Slot& slot = at(id);
  CHECK_GT(slot.references, 0);
  if (--slot.references > 0) return;
  if (slot.block == kNoBlock) {
    free_.push_back(id);
  } else {
    Cache(id);
  }
}

SlotId SlotPool::Attach(BlockId block, SlotId id) {
  SlotId& mine = by_block_[static_cast<size_t>(block)];
  if (mine == id) return id;
  CHECK(at(id).references > 0 && at(id).block == kNoBlock);
  if (mine == kNoSlot) {
    mine = id;
    at(id).block = block;
  } else if (at(mine).references == 0) {  // used now
    Uncache(mine);
    Cache(mine);
  }
  return mine;
}

void SlotPool::Forget(BlockId block) {
  if (by_block_.empty()) return;
  const SlotId id = std::exchange(by_block_[static_cast<size_t>(block)], kNoSlot);
  if (id == kNoSlot) return;
  at(id).block = kNoBlock;
  if (at(id).references > 0) return;
  Uncache(id);
  free_.push_back(id);
}

void SlotPool::Cache(SlotId id) {
  at(id).before = newest_;
  at(id).after = kNoSlot;
  (newest_ == kNoSlot ? oldest_ : at(newest_).after) = id;
  newest_ = id;
  ++cached_;
}

void SlotPool::Uncache(SlotId id) {
  const Slot& slot = at(id);
  (slot.before == kNoSlot ? oldest_ : at(slot.before).after) = slot.after;
  (slot.after == kNoSlot ? newest_ : at(slot.after).before) = slot.before;
  --cached_;
}

bool SlotPool::Check(std::string* why) const {
  int free = 0, cached = 0, attached = 0, listed = 0;
  for (SlotId id = 0; id < total(); ++id) {
    const Slot& slot = at(id);
    const bool has_block = slot.block != kNoBlock;
    attached += has_block ? 1 : 0;
    if (slot.references == 0) ++(has_block ? cached : free);
    if (slot.references < 0 || (has_block && Of(slot.block) != id)) {
      *why = "slot " + std::to_string(id) + " and its block do not agree";
      return false;
    }
  }
  for (const SlotId id : by_block_) attached -= id == kNoSlot ? 0 : 1;
  for (SlotId id = oldest_; id != kNoSlot && listed <= total(); id = at(id).after) ++listed;
  if (free == this->free() && cached == cached_ && cached == listed && attached == 0) return true;
  *why = "slots are miscounted";
  return false;
}

}  // namespace tutti::kv
