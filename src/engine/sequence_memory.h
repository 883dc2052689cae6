// SequenceMemory: the memory of sequences, KV blocks and slots of recurrent states: prefix reuse at
// admission, indexing of full blocks, checkpoints, release, and reclaiming the memory of sequences
// that do not run.
//
// Owned by a Scheduler; engine thread. Uses the block pool, which must outlive it, and keeps
// pointers to the sequences that hold blocks and do not run.
#pragma once

#include <vector>

#include "engine/prefix_transfer.h"
#include "engine/sequence.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"
#include "kv/slot_pool.h"

namespace tutti::engine {

// Cached KV that a sequence without blocks can start from. Valid until blocks are next taken or
// released. Callers keep one object, so that its memory is reused.
struct Reuse {
  kv::PrefixIndex::Match found;     // of the prompt, in the prefix index or with a sibling
  std::vector<kv::BlockId> blocks;  // the full ones of `found`
  int queried = 0;                  // tokens looked for in the prefix index
  // With recurrent states: the checkpoint at the end of `found`, and the end of what the index
  // knows beyond it.
  kv::SlotId state = kv::kNoSlot;
  int branch = 0;
  std::vector<kv::SlotId> window_blocks;  // of the full blocks that the next token sees, last first
  kv::SlotId partial_window_block = kv::kNoSlot;
};

class SequenceMemory {
 public:
  // `window`: of the layers whose blocks are pool->window_blocks(), if there are any. `transfer`
  // saves the blocks of sequences that leave; may be null.
  SequenceMemory(kv::KvBlockPool* pool, int window, PrefixTransfer* transfer)
      : pool_(*pool),
        states_(pool->states()),
        window_blocks_(pool->window_blocks()),
        window_(window),
        transfer_(transfer) {}

  // Whether the model has recurrent states, or window blocks.
  bool stateful() const { return states_.total() > 0; }
  bool windowed() const { return window_blocks_.total() > 0; }

  // --- at admission ---
  static bool Fresh(const Sequence& s) {  // holds no memory
    return s.blocks.empty() && s.copy_from == kv::kNoBlock && s.recurrent.live == kv::kNoSlot;
  }
  // Looks up the sequence's prompt. Finds nothing if the sequence is not fresh, or if its prompt is
  // to be scored, which needs the logits of every row. With recurrent states it finds only what
  // ends at a checkpoint, and a partly filled block only if `partial`.
  void Find(const Sequence& s, Reuse& reuse, bool partial = true) const;
  // Number of its blocks that only the index references: using them reduces the available blocks.
  int Revived(const Reuse& reuse) const;
  // Drops the partly matching block if only the index references it: as the source of a copy it
  // would take one more block until the copy is done. False when there is no such block.
  bool DropUnheldPartial(const Sequence& s, Reuse& reuse) const;
  // Whether a slot is available for the sequence, besides the checkpoint of `reuse`.
  bool StateFits(const Sequence& s, const Reuse& reuse) const;
  // Forgets what was found if its checkpoint is the only available slot. False if it is not.
  bool DropForState(const Sequence& s, Reuse& reuse) const;
  // Gives a fresh sequence the blocks that were found.
  void Start(Sequence& s, const Reuse& reuse);

  // --- of a sequence ---
  void DropCopy(Sequence& s);   // the copied block is no longer needed, or not wanted
  void IndexFull(Sequence& s);  // enters blocks that became full into the prefix index
  // Frees all memory. With `reusable` the last, partly filled block is kept in the prefix index
  // too, and the recurrent state becomes the checkpoint of the last block. Without, what the
  // sequence computed leaves the index, unless another sequence uses or has continued it.
  void Release(Sequence& s, bool reusable);

  // --- its blocks in layers with a window ---
  // Appends `count` blocks for a step; from sequences that do not run, if need be. The admission
  // rule guarantees that they exist (Scheduler::WindowBlocksFit).
  void AddWindowBlocks(Sequence& s, int count);
  void RemoveWindowBlocks(Sequence& s, int count);  // the last ones, as the step failed
  void FreeBehindWindow(Sequence& s);

  // --- its recurrent state ---
  // Empties a running sequence, which keeps its slot.
  void Restart(Sequence& s);
  // A slot for a checkpoint, or kNoSlot. The caller gives it to CommitState or drops it.
  kv::SlotId TakeSave() { return states_.Take(); }
  void DropSave(kv::SlotId slot) { states_.Drop(slot); }
  bool CanSave() const { return states_.available() > 0; }
  // The step has computed the sequence's `computed` tokens and filled `save`, if it is set.
  void CommitState(Sequence& s, kv::SlotId save);
  // Whether other choices of its request have not run yet: they can start from its prompt.
  static bool SiblingsWait(const Sequence& s);
  // Drops the states kept for other choices once all of them have run.
  void DropForks(const Sequence& s);
  // Whether a step that failed has destroyed the state: it is in no checkpoint that `s` refers to.
  static bool StateLost(const Sequence& s);

  // --- sequences that hold memory and do not run ---
  void SetIdle(Sequence& s, bool idle);
  // Releases the memory of loads, or of one such sequence other than `except`. False when there is
  // none.
  bool ReclaimIdle(const Sequence& except);
  bool CanReclaim() const;
  int idle_holders() const { return static_cast<int>(idle_.size()); }

 private:
  void FindWithSibling(const Sequence& s, Reuse& reuse) const;
  // Whether `reuse` has the slots that the token after it sees; fills in those.
  bool FindWindowBlocks(const Sequence* sibling, Reuse& reuse) const;
  void AttachWindowBlock(Sequence& s, int i, kv::BlockId block);
  void DropStates(Sequence& s);
  void DropWindowBlocks(Sequence& s);
  void AttachLive(Sequence& s, kv::BlockId tail);

  kv::KvBlockPool& pool_;
  kv::SlotPool& states_;         // pool_.states()
  kv::SlotPool& window_blocks_;  // pool_.window_blocks()
  const int window_;
  PrefixTransfer* const transfer_;
  std::vector<Sequence*> idle_;  // paused or waiting, yet holding memory
};

}  // namespace tutti::engine
