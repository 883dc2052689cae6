// Invariants of a decoder between two steps, checked on a snapshot of plain values. The simulation
// checks them after every step; a debugger may call them too. Pure, except for TakeSnapshot, which
// runs on the engine thread.
#pragma once

#include <string>
#include <vector>

#include "engine/decoder_instance.h"
#include "engine/sequence.h"

namespace tutti::engine {

struct SequenceSnapshot {
  uint32_t id = 0;
  SequenceState state = SequenceState::kWaiting;
  bool pinned = false;
  int tokens = 0, prompt_tokens = 0, target_tokens = 0, computed = 0, indexed = 0;
  int preemptions = 0, overtaken = 0;
  int promised = 0;
  kv::BlockId copy_from = kv::kNoBlock;
  int first_window = 0;
  size_t window_block_count = 0;
  kv::SlotId window_copy = kv::kNoSlot;
  RecurrentState recurrent;
  size_t first_block = 0, blocks = 0;  // range in EngineSnapshot::table_blocks
};

struct EngineSnapshot {
  int max_num_seqs = 0, max_preemptions = 0, max_overtakes = 0;
  bool no_evict = false;
  int running = 0, waiting = 0, idle_holders = 0;
  uint64_t preemptions = 0;
  int free = 0, cached = 0, active = 0, total = 0, promised = 0;
  std::vector<int> references;  // by block
  int window = 0, window_blocks_total = 0, window_blocks_active = 0;
  std::vector<int> window_references;              // by block of the layers with a window
  std::vector<kv::SlotId> table_window_blocks;     // parallel to table_blocks
  std::vector<kv::SlotId> attached_window_blocks;  // by block; empty without windows
  std::string window_blocks_broken;                // what SlotPool::Check found
  int states_free = 0, states_cached = 0, states_active = 0, states_total = 0;
  std::vector<int> state_references;           // by slot of a recurrent state
  std::vector<kv::SlotId> checkpoints;         // by block; empty without states
  std::string states_broken;                   // what SlotPool::Check found
  std::vector<bool> block_indexed;             // by block
  std::vector<kv::BlockId> table_blocks;       // of all sequences, one after the other
  std::vector<bool> table_generation_matches;  // parallel
  // What loads and pins of prefixes reference.
  std::vector<kv::BlockId> held_blocks;
  std::vector<kv::SlotId> held_window_blocks, held_states;
  std::vector<SequenceSnapshot> sequences;
};

// Fills `snapshot`, reusing its memory. On the engine thread, or while no step can run.
void TakeSnapshot(const DecoderInstance& decoder, EngineSnapshot* snapshot);

// Describes a violated invariant; empty if all hold.
std::string FindViolation(const EngineSnapshot& snapshot);

}  // namespace tutti::engine
