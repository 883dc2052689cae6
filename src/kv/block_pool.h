// KvBlockPool: allocates the blocks of the device's KV memory. Counts references and never touches
// the memory.
//
// Owned by a DecoderInstance; engine thread only. A block is free, active (referenced) or cached
// (unreferenced but in the prefix index; evicted when blocks run short). A promise sets blocks
// aside for a sequence that must be able to reach its end; the sequence's later reservations use
// the promised blocks first.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/block_table.h"
#include "kv/prefix_index.h"
#include "kv/slot_pool.h"

namespace tutti::kv {

class KvBlockPool;

// Blocks appended to a table for a step that may still fail. If it is destroyed without Commit(),
// it removes the blocks from the table and returns them to the pool. Movable.
class KvReservation {
 public:
  KvReservation() = default;
  KvReservation(KvReservation&& other) noexcept;
  KvReservation& operator=(KvReservation&& other) noexcept;
  ~KvReservation() { Return(); }

  int count() const { return count_; }
  void Commit() { pool_ = nullptr; }
  void Return();

 private:
  friend class KvBlockPool;
  KvBlockPool* pool_ = nullptr;
  BlockTable* table_ = nullptr;
  int count_ = 0;
  int from_promise_ = 0;
};

class KvBlockPool {
 public:
  // `states`: slots of recurrent states; `window_blocks`: of the layers with a sliding window,
  // where these have memory of their own. 0 for a model without them.
  explicit KvBlockPool(int blocks, const PrefixOptions& prefix = {}, int states = 0,
                       int window_blocks = 0);

  int total() const { return static_cast<int>(references_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int cached() const { return index_.unreferenced(); }
  int active() const { return total() - free() - cached(); }
  int promised() const { return promised_; }
  // Blocks that a sequence without a promise could get now.
  int available() const { return free() + cached() - promised_; }
  uint64_t evicted() const { return evicted_; }  // cached blocks taken back, since the beginning

  // Appends `count` blocks to `table`. kv_exhausted if fewer are available, or by the fault hook.
  Result<KvReservation> Reserve(BlockTable& table, int count, uint32_t owner);
  // Keeps `count` more blocks back for `table`; false (and nothing changed) when they are not
  // available.
  bool Promise(BlockTable& table, int count);
  void DropPromise(BlockTable& table);

  // Appends blocks that live already, taking a reference on each.
  void Share(BlockTable& table, std::span<const BlockId> blocks);
  // Gives back all blocks of `table`, last first, and its promise.
  void Release(BlockTable& table);
  // Enters table[i] into the index; where equal contents are there already, the table changes over
  // to them if they are a full block. Blocks before i must have been entered. `tokens` fill the
  // block, or its beginning if it is the last. Returns the block of the index.
  BlockId Index(BlockTable& table, int i, RootId root, std::span<const TokenId> tokens);

  // Takes blocks [first, size) of `table` out of the index, the last first, up to one that another
  // table refers to or that the index continues. The table keeps its references.
  void Forget(const BlockTable& table, int first);

  // A reference outside any table, for the source of a copy.
  void Retain(BlockId block) { Reference(block); }
  void Drop(BlockId block) { Unreference(block); }

  std::span<const BlockId> free_blocks() const { return free_; }
  int references(BlockId block) const { return references_[static_cast<size_t>(block)]; }
  // Changes whenever the block returns to the free list or is evicted.
  uint32_t generation(BlockId block) const { return generations_[static_cast<size_t>(block)]; }

  PrefixIndex& index() { return index_; }
  const PrefixIndex& index() const { return index_; }
  SlotPool& states() { return states_; }
  const SlotPool& states() const { return states_; }
  SlotPool& window_blocks() { return window_blocks_; }
  const SlotPool& window_blocks() const { return window_blocks_; }

  // Injects failures: Reserve for an owner fails where this returns true.
  void SetAllocationFault(std::function<bool(uint32_t owner)> fault) { fault_ = std::move(fault); }

 private:
  friend class KvReservation;
  void Reference(BlockId block);
  void Unreference(BlockId block);
  BlockId Take();
  void PopBack(BlockTable& table);

  std::vector<int32_t> references_;
  std::vector<uint32_t> generations_;
  std::vector<BlockId> free_;  // a stack: the most recently freed block is the warmest
  PrefixIndex index_;
  SlotPool states_;         // attached ones: checkpoints
  SlotPool window_blocks_;  // attached ones: keys and values of the block in layers with a window
  int promised_ = 0;
  uint64_t evicted_ = 0;
  std::function<bool(uint32_t)> fault_;
};

}  // namespace tutti::kv
