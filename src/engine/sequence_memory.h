// SequenceMemory: the KV blocks of sequences, from what a new one can start from to what a leaving
// one leaves behind.
//
// Part of a Scheduler; engine thread, pure. Borrows the pool, which outlives it, and points to
// sequences that hold blocks without a lane.
#pragma once

#include <vector>

#include "engine/sequence.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace tutti::engine {

// Computed KV that a sequence without blocks can start from. Valid until blocks are next taken or
// released; a value to use again, for its memory.
struct Reuse {
  kv::PrefixIndex::Match found;     // of the prompt, in the prefix index or with a sibling
  std::vector<kv::BlockId> blocks;  // the full ones of `found`
  int queried = 0;                  // tokens looked for in the prefix index
};

class SequenceMemory {
 public:
  explicit SequenceMemory(kv::KvBlockPool* pool) : pool_(*pool) {}

  // --- at admission ---
  static bool Fresh(const Sequence& s) {  // has no KV of its own
    return s.blocks.empty() && s.copy_from == kv::kNoBlock;
  }
  // Nothing where the sequence is not fresh or its prompt is to be scored, which needs every row.
  void Find(const Sequence& s, Reuse& reuse) const;
  // Blocks of it that only the index keeps: to use them takes them out of what is available.
  int Revived(const Reuse& reuse) const;
  // Gives up the partly matching block where using it would revive it: as the source of a copy it
  // costs a block for a moment. False when there is no such block.
  bool DropUnheldPartial(Reuse& reuse) const;
  // A fresh sequence takes what was found.
  void Start(Sequence& s, const Reuse& reuse);

  // --- of a sequence ---
  void DropCopy(Sequence& s);   // the copied block is no longer needed, or not wanted
  void IndexFull(Sequence& s);  // enters blocks that became full into the prefix index
  // Frees everything; with `keep_tail` its last, partly filled block can still be found.
  void Release(Sequence& s, bool keep_tail);

  // --- sequences that hold blocks without a lane ---
  void SetIdle(Sequence& s, bool idle);
  // Releases the blocks of one of them other than `except`. False when there is none.
  bool ReclaimIdle(const Sequence& except);
  int idle_holders() const { return static_cast<int>(idle_.size()); }

 private:
  kv::KvBlockPool& pool_;
  std::vector<Sequence*> idle_;  // paused or waiting, yet holding blocks
};

}  // namespace tutti::engine
