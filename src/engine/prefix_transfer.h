// PrefixTransfer: moves prefixes between the pool and a PrefixStore, so that they outlive eviction
// and the process.
//
// Saving: when a sequence gives its blocks back, the blocks that the store lacks are noted. They
// are copied between steps, a few at a time, as long as the pool still has them; what was evicted
// first is not saved. Nothing is held for it, so that it never takes memory from a sequence.
//
// Loading: the blocks of a waiting sequence's prompt that the store has, and the index has not, are
// read by the store's threads, copied into blocks of the pool and entered into the index. Meanwhile
// the sequence is not admitted, for a limited time. The blocks of a load are referenced by
// its table until it ends; when blocks run short, loads end first. A load that fails changes
// nothing: the sequence computes what is missing.
//
//         the store has more              all blocks entered
//   Ask ----------------------> loading ----------------------> done: the sequence is admitted
//    |                             |                             ^
//    |                             +-----------------------------+
//    |                               deadline, failure, no block |
//    +-----------------------------------------------------------+
//      it has not
//
// Owned by a DecoderInstance; engine thread only. Uses the pool, the runner and the store, which
// outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/model_runner.h"
#include "engine/sequence.h"
#include "kv/block_pool.h"
#include "kv/prefix_store.h"

namespace tutti::engine {

struct TransferStats {
  uint64_t loads = 0;           // begun
  uint64_t failed_loads = 0;    // ended before all of their blocks were there
  uint64_t loaded_tokens = 0;   // entered into the index
  uint64_t saved_blocks = 0;    // given to the store
  uint64_t dropped_blocks = 0;  // not saved: evicted before, or too much was waiting
};

class PrefixTransfer {
 public:
  // `window`: RunnerLimits::window. `patience`: SchedulerOptions::load_patience.
  PrefixTransfer(kv::PrefixStore* store, ModelRunner* runner, kv::KvBlockPool* pool, int window,
                 Duration patience);
  ~PrefixTransfer();  // ends all loads

  // --- saving ---
  // `s` is about to release its blocks: `s.indexed` full ones are in the index, and `tail`, unless
  // it is kNoBlock, is a partly filled block after them.
  void Save(const Sequence& s, kv::BlockId tail);

  // --- loading ---
  // For a fresh sequence whose prompt begins with `known` in the index: begins to read what the
  // store has beyond that. Without effect if it was called for the sequence before, unless too many
  // loads were running then.
  void Ask(Sequence& s, std::span<const kv::BlockId> known, TimePoint now);
  // Whether Ask() may decide otherwise than the last time: it was not called, or a load has ended.
  bool MayAsk(const Sequence& s) const {
    return s.load == LoadState::kNone && s.load_asked_at != ended_loads_;
  }
  // Whether the sequence waits for its prefix to be read, which Ask() was called for.
  bool Waits(Sequence& s, TimePoint now);
  // The sequence no longer waits for its load.
  void Cancel(Sequence& s);
  // Blocks or slots are short: ends all loads, which makes their blocks evictable. False if there
  // is none.
  bool EndLoads();
  int loads() const { return static_cast<int>(loads_.size()); }

  // --- between steps ---
  // Copies what there is to copy, a little if `busy` (a step can run), else more. Returns when to
  // call it again if nothing is signalled before.
  TimePoint Move(TimePoint now, bool busy);
  // Before the end: saves what is noted, for `most` of real time.
  void Flush(Duration most);

  const TransferStats& stats() const { return stats_; }
  // Blocks that loads reference, for invariant checks.
  void AppendHeldBlocks(std::vector<kv::BlockId>& blocks) const;

 private:
  // Blocks of a sequence that ended, to be saved.
  struct SaveJob {
    std::string root;
    std::vector<TokenId> tokens;  // to the end of the last block
    std::vector<kv::BlockId> blocks;
    std::vector<uint32_t> generations;
    std::vector<kv::BlockParts> parts;    // set when it begins
    std::optional<kv::MissingBlocks> of;  // set when it begins
    size_t next = 0;                      // block to look at
  };
  // A piece of a load: blocks of one file.
  struct Piece {
    uint64_t id = 0;
    size_t begin = 0, end = 0;  // of Load::wanted
    bool read = false;          // `memory` has arrived
    std::vector<std::byte> memory;
    size_t offset = 0;  // of the next block in `memory`
  };
  struct Load {
    Sequence* sequence = nullptr;
    std::string root;
    std::shared_ptr<const std::vector<TokenId>> tokens;
    int first_block = 0;  // of `wanted`
    std::vector<kv::StoredBlock> wanted;
    size_t asked = 0;          // blocks of `wanted` that were asked for
    size_t entered = 0;        // ... and that are in the index
    std::deque<Piece> pieces;  // asked for and not entered
    kv::BlockTable table;      // all blocks up to the last that was entered
    TimePoint deadline{};
  };

  // Whether a load enters block `first_block` of the sequence's prompt.
  bool IsLoading(const Sequence& s, int first_block) const;
  void ReadMore(Load& load);
  void TakeResults();
  bool EnterBlock(Load& load);
  void EnterSlot(kv::SlotPool& slots, MemoryKind kind, kv::BlockId block,
                 std::span<const std::byte> memory);
  void End(size_t i);
  void MoveLoads(TimePoint now, size_t& budget);  // takes from `budget`
  void MoveSaves(size_t budget);
  kv::BlockParts PartsOf(kv::BlockId block) const;
  bool SubmitSave();
  bool CopyOutBlock(SaveJob& job, size_t i);
  void DropRest(SaveJob& job);

  kv::PrefixStore& store_;
  ModelRunner& runner_;
  kv::KvBlockPool& pool_;
  const kv::PrefixShape shape_;
  const int window_;
  const Duration patience_;
  std::deque<SaveJob> saves_;
  kv::PrefixWrite write_;       // being filled from saves_.front()
  bool write_refused_ = false;  // the store's queue was full: write_ waits
  std::vector<Load> loads_;
  uint64_t ended_loads_ = 1;
  int reading_ = 0;  // reads whose results were not taken
  uint64_t last_id_ = 0;
  std::vector<kv::PrefixReadResult> results_;
  TransferStats stats_;
};

// How many of the stored blocks are of use, given that all blocks before `first_block` are known: a
// hit may end after them. With states it ends at a block with a state, with windows at one whose
// window blocks are there. Clears the parts that such a hit does not need. Pure.
size_t UsableBlocks(std::span<kv::StoredBlock> blocks, int first_block, bool states, bool windows,
                    int window);

}  // namespace tutti::engine
