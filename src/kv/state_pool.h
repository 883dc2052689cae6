// StatePool: allocates the slots of recurrent states. A slot holds the state of one sequence after
// some of its tokens. Counts references and never touches the memory.
//
// Owned by a KvBlockPool; engine thread only. A slot is free, active (referenced: a running
// sequence's state, or a checkpoint that is about to be copied from) or cached (unreferenced, but
// the checkpoint of a block of the prefix index; evicted when slots run short). A block has at most
// one checkpoint: the state after the last of its tokens. Allocates nothing after its construction.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/block_table.h"

namespace tutti::kv {

using StateId = int32_t;  // index of a slot in the device's memory of states, >= 0
inline constexpr StateId kNoState = -1;

class StatePool {
 public:
  StatePool(int slots, int blocks)
      : slots_(static_cast<size_t>(slots)),
        by_block_(slots > 0 ? static_cast<size_t>(blocks) : 0, kNoState),
        free_(slots) {}

  int total() const { return static_cast<int>(slots_.size()); }
  int free() const { return free_; }
  int cached() const { return cached_; }
  int active() const { return total() - free_ - cached_; }
  // Slots that Take() can return now.
  int available() const { return free_ + cached_; }
  uint64_t evicted() const { return evicted_; }  // checkpoints, for Take(), since the beginning

  // A slot with one reference, whose contents count for nothing; the least recently used cached one
  // if none is free. kNoState if none is available.
  StateId Take();
  void Reference(StateId slot);
  void Drop(StateId slot);
  int references(StateId slot) const { return at(slot).references; }

  // Makes `slot` the checkpoint of `block`, which is in the prefix index. If the block has one
  // already, that one stays.
  void Attach(BlockId block, StateId slot);
  // The checkpoint of `block`, or kNoState.
  StateId Of(BlockId block) const {
    return by_block_.empty() ? kNoState : by_block_[static_cast<size_t>(block)];
  }
  // `block` leaves the prefix index, or its checkpoint is no longer wanted.
  void Forget(BlockId block);

  // False and a reason when an invariant does not hold. For tests.
  bool Check(std::string* why) const;

 private:
  struct Slot {
    int32_t references = 0;
    BlockId block = kNoBlock;  // whose checkpoint it is
    uint64_t last_use = 0;
  };
  Slot& at(StateId slot) { return slots_[static_cast<size_t>(slot)]; }
  const Slot& at(StateId slot) const { return slots_[static_cast<size_t>(slot)]; }

  std::vector<Slot> slots_;
  std::vector<StateId> by_block_;  // [blocks], empty without slots
  uint64_t clock_ = 0;
  uint64_t evicted_ = 0;
  int free_ = 0;
  int cached_ = 0;
};

}  // namespace tutti::kv
