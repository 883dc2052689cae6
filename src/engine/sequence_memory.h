// SequenceMemory: manages the KV blocks of sequences: prefix reuse at admission, indexing of full
// blocks, release, and reclaiming the blocks of sequences that do not run.
//
// Owned by a Scheduler; engine thread. Uses the block pool, which must outlive it, and keeps
// pointers to the sequences that hold blocks and do not run.
#pragma once

#include <vector>

#include "engine/sequence.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace tutti::engine {

// Cached KV that a sequence without blocks can start from. Valid until blocks are next taken or
// released. Callers keep one object, so that its memory is reused.
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
  // Looks up the sequence's prompt. Finds nothing if the sequence is not fresh, or if its prompt is
  // to be scored, which needs the logits of every row.
  void Find(const Sequence& s, Reuse& reuse) const;
  // Number of its blocks that only the index references: using them reduces the available blocks.
  int Revived(const Reuse& reuse) const;
  // Drops the partly matching block if only the index references it: as the source of a copy it
  // would take one more block until the copy is done. False when there is no such block.
  bool DropUnheldPartial(Reuse& reuse) const;
  // Gives a fresh sequence the blocks that were found.
  void Start(Sequence& s, const Reuse& reuse);

  // --- of a sequence ---
  void DropCopy(Sequence& s);   // the copied block is no longer needed, or not wanted
  void IndexFull(Sequence& s);  // enters blocks that became full into the prefix index
  // Frees all blocks; with `keep_tail` the last, partly filled block is kept in the prefix index.
  void Release(Sequence& s, bool keep_tail);

  // --- sequences that hold blocks and do not run ---
  void SetIdle(Sequence& s, bool idle);
  // Releases the blocks of one such sequence other than `except`. False when there is none.
  bool ReclaimIdle(const Sequence& except);
  int idle_holders() const { return static_cast<int>(idle_.size()); }

 private:
  kv::KvBlockPool& pool_;
  std::vector<Sequence*> idle_;  // paused or waiting, yet holding blocks
};

}  // namespace tutti::engine
