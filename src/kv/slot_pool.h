// SlotPool: allocates memory that belongs to one block of a sequence and comes in slots of one
// size: the recurrent state after the last token of the block, or the block's keys and values in
// layers with a sliding window. Counts references and never touches the memory.
//
// Owned by a KvBlockPool; engine thread only. A slot is free, active (referenced by sequences) or
// cached (unreferenced, but attached to a block of the prefix index; evicted when slots run short,
// the least recently used first). A block has at most one slot of a pool. Allocates nothing after
// its construction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/block_table.h"

namespace tutti::kv {

using SlotId = int32_t;  // index of a slot in the device's memory, >= 0
inline constexpr SlotId kNoSlot = -1;

class SlotPool {
 public:
  SlotPool(int slots, int blocks);

  int total() const { return static_cast<int>(slots_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int cached() const { return cached_; }
  int active() const { return total() - free() - cached_; }
  // Slots that Take() can return now.
  int available() const { return free() + cached_; }
  uint64_t evicted() const { return evicted_; }  // cached slots, for Take(), since the beginning

  // A slot with one reference, whose contents count for nothing; the least recently used cached one
  // if none is free. kNoSlot if none is available.
  SlotId Take();
  void Reference(SlotId slot);
  void Drop(SlotId slot);
  int references(SlotId slot) const { return at(slot).references; }

  // Attaches `slot` to `block`, which is in the prefix index. If the block has a slot already, that
  // one stays. Returns the slot that the block has.
  SlotId Attach(BlockId block, SlotId slot);
  // The slot of `block`, or kNoSlot.
  SlotId Of(BlockId block) const {
    return by_block_.empty() ? kNoSlot : by_block_[static_cast<size_t>(block)];
  }
  // `block` leaves the prefix index, or its slot is no longer wanted there.
  void Forget(BlockId block);

  // False and a reason when an invariant does not hold. For tests.
  bool Check(std::string* why) const;

 private:
  struct Slot {
    int32_t references = 0;
    BlockId block = kNoBlock;                  // to which it is attached
    SlotId before = kNoSlot, after = kNoSlot;  // among the cached ones, by last use
  };
  Slot& at(SlotId slot) { return slots_[static_cast<size_t>(slot)]; }
  const Slot& at(SlotId slot) const { return slots_[static_cast<size_t>(slot)]; }
  void Cache(SlotId slot);
  void Uncache(SlotId slot);

  std::vector<Slot> slots_;
  std::vector<SlotId> by_block_;  // [blocks], empty without slots
  std::vector<SlotId> free_;      // a stack: the most recently freed slot is the warmest
  SlotId oldest_ = kNoSlot, newest_ = kNoSlot;  // of the cached ones
  int cached_ = 0;
  uint64_t evicted_ = 0;
};

}  // namespace tutti::kv
