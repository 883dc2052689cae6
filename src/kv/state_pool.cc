#include "kv/state_pool.h"

#include <utility>

#include "base/check.h"

namespace tutti::kv {

StateId StatePool::Take() {
  // A walk over all slots: there are hundreds, and slots are taken once per sequence and
  // checkpoint.
  StateId chosen = kNoState;
  for (StateId id = 0; id < total(); ++id) {
    const Slot& slot = at(id);
    if (slot.references > 0) continue;
    if (slot.block == kNoBlock) {
      chosen = id;
      break;
    }
    if (chosen == kNoState || slot.last_use < at(chosen).last_use) chosen = id;
  }
  if (chosen == kNoState) return kNoState;
  if (at(chosen).block != kNoBlock) {
    ++evicted_;
    Forget(at(chosen).block);
  }
  --free_;
  at(chosen).references = 1;
  return chosen;
}

void StatePool::Reference(StateId id) {
  Slot& slot = at(id);
  if (slot.references++ > 0) return;
  CHECK(slot.block != kNoBlock) << "state " << id << " is free and cannot be shared";
  --cached_;
}

void StatePool::Drop(StateId id) {
  Slot& slot = at(id);
  CHECK_GT(slot.references, 0);
  if (--slot.references > 0) return;
  slot.last_use = ++clock_;
  ++(slot.block == kNoBlock ? free_ : cached_);
}

void StatePool::Attach(BlockId block, StateId id) {
  CHECK(at(id).references > 0 && at(id).block == kNoBlock);
  StateId& mine = by_block_[static_cast<size_t>(block)];
  if (mine != kNoState) {
    at(mine).last_use = ++clock_;
    return;
  }
  mine = id;
  at(id).block = block;
}

void StatePool::Forget(BlockId block) {
  if (by_block_.empty()) return;
  const StateId id = std::exchange(by_block_[static_cast<size_t>(block)], kNoState);
  if (id == kNoState) return;
  at(id).block = kNoBlock;
  if (at(id).references > 0) return;
  --cached_;
  ++free_;
}

bool StatePool::Check(std::string* why) const {
  int free = 0, cached = 0, attached = 0;
  for (StateId id = 0; id < total(); ++id) {
    const Slot& slot = at(id);
    const bool has_block = slot.block != kNoBlock;
    attached += has_block ? 1 : 0;
    if (slot.references == 0) ++(has_block ? cached : free);
    if (slot.references < 0 || (has_block && Of(slot.block) != id)) {
      *why = "state " + std::to_string(id) + " and its block do not agree";
      return false;
    }
  }
  for (const StateId id : by_block_) attached -= id == kNoState ? 0 : 1;
  if (free == free_ && cached == cached_ && attached == 0) return true;
  *why = "states are miscounted";
  return false;
}

}  // namespace tutti::kv
