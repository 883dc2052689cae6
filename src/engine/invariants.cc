#include "engine/invariants.h"

#include "engine/policy/strategy.h"
#include "engine/policy/window.h"

namespace tutti::engine {

void TakeSnapshot(const DecoderInstance& decoder, EngineSnapshot* snapshot) {
  EngineSnapshot& out = *snapshot;
  const Scheduler& scheduler = decoder.scheduler();
  const kv::KvBlockPool& pool = decoder.pool();
  const SchedulerOptions& options = scheduler.options();
  out.max_num_seqs = MaxNumSeqs(options);
  out.max_preemptions = options.max_preemptions;
  out.max_overtakes = options.max_overtakes;
  out.no_evict = options.admission == Admission::kNoEvict;
  out.running = scheduler.running();
  out.waiting = scheduler.waiting();
  out.idle_holders = scheduler.idle_holders();
  out.preemptions = scheduler.preemptions();
  out.free = pool.free();
  out.cached = pool.cached();
  out.active = pool.active();
  out.total = pool.total();
  out.promised = pool.promised();
  const kv::SlotPool& states = pool.states();
  out.states_free = states.free();
  out.states_cached = states.cached();
  out.states_active = states.active();
  out.states_total = states.total();
  out.state_references.clear();
  for (kv::SlotId id = 0; id < states.total(); ++id)
    out.state_references.push_back(states.references(id));
  out.checkpoints.clear();
  for (kv::BlockId b = 0; states.total() > 0 && b < pool.total(); ++b)
    out.checkpoints.push_back(states.Of(b));
  out.states_broken.clear();
  states.Check(&out.states_broken);
  const kv::SlotPool& window_blocks = pool.window_blocks();
  out.window = decoder.limits().window;
  out.window_blocks_total = window_blocks.total();
  out.window_blocks_active = window_blocks.active();
  out.window_references.clear();
  for (kv::SlotId id = 0; id < window_blocks.total(); ++id)
    out.window_references.push_back(window_blocks.references(id));
  out.attached_window_blocks.clear();
  for (kv::BlockId b = 0; window_blocks.total() > 0 && b < pool.total(); ++b)
    out.attached_window_blocks.push_back(window_blocks.Of(b));
  out.window_blocks_broken.clear();
  window_blocks.Check(&out.window_blocks_broken);
  out.table_window_blocks.clear();
  out.references.clear();
  out.block_indexed.clear();
  for (kv::BlockId b = 0; b < pool.total(); ++b) {
    out.references.push_back(pool.references(b));
    out.block_indexed.push_back(pool.index().indexed(b));
  }
  out.held_blocks.clear();
  out.held_window_blocks.clear();
  out.held_states.clear();
  if (decoder.transfer() != nullptr) decoder.transfer()->AppendHeldBlocks(out.held_blocks);
  decoder.pins().AppendHeld(out.held_blocks, out.held_window_blocks, out.held_states);
  out.table_blocks.clear();
  out.table_generation_matches.clear();
  out.sequences.clear();
  for (const auto& work : decoder.works()) {
    for (const Sequence* s : work->sequences) {
      SequenceSnapshot view;
      view.id = s->id;
      view.state = s->state();
      view.pinned = s->pinned;
      view.tokens = static_cast<int>(s->tokens.size());
      view.prompt_tokens = s->prompt_tokens;
      view.target_tokens = s->target_tokens;
      view.computed = s->computed;
      view.indexed = s->indexed;
      view.preemptions = s->preemptions;
      view.overtaken = s->overtaken;
      view.promised = s->blocks.promised();
      view.copy_from = s->copy_from;
      view.recurrent = s->recurrent;
      view.first_window = s->window_blocks.first;
      view.window_block_count = s->window_blocks.ids.size();
      view.window_copy = s->window_blocks.copy_from;
      out.table_window_blocks.insert(out.table_window_blocks.end(), s->window_blocks.ids.begin(),
                                     s->window_blocks.ids.end());
      view.first_block = out.table_blocks.size();
      view.blocks = static_cast<size_t>(s->blocks.size());
      for (int i = 0; i < s->blocks.size(); ++i) {
        out.table_blocks.push_back(s->blocks[i]);
        out.table_generation_matches.push_back(s->blocks.generation(i) ==
                                               pool.generation(s->blocks[i]));
      }
      out.sequences.push_back(view);
    }
  }
}

namespace {

// The slots of recurrent states, after the sequences were checked.
std::string FindStateViolation(const EngineSnapshot& s) {
  if (!s.states_broken.empty()) return s.states_broken;
  if (s.states_free + s.states_cached + s.states_active != s.states_total)
    return "states are lost: free + cached + active != total";
  std::vector<int> holders(s.state_references.size(), 0);
  for (const SequenceSnapshot& q : s.sequences) {
    for (const kv::SlotId id : {q.recurrent.live, q.recurrent.from, q.recurrent.fork}) {
      if (id != kv::kNoSlot) ++holders[static_cast<size_t>(id)];
    }
    if (q.recurrent.live != kv::kNoSlot &&
        s.state_references[static_cast<size_t>(q.recurrent.live)] != 1)
      return "the state of sequence " + std::to_string(q.id) + " is held by others too";
  }
  for (const kv::SlotId id : s.held_states) ++holders[static_cast<size_t>(id)];
  for (size_t id = 0; id < holders.size(); ++id) {
    if (holders[id] != s.state_references[id]) {
      return "state " + std::to_string(id) + " has " + std::to_string(s.state_references[id]) +
             " references and " + std::to_string(holders[id]) + " holders";
    }
  }
  for (size_t b = 0; b < s.checkpoints.size(); ++b) {
    if (s.checkpoints[b] != kv::kNoSlot && !s.block_indexed[b])
      return "block " + std::to_string(b) + " has a checkpoint and is not in the index";
  }
  return "";
}

// The blocks of layers with a window, after the sequences were checked.
std::string FindWindowViolation(const EngineSnapshot& s) {
  if (!s.window_blocks_broken.empty()) return s.window_blocks_broken;
  std::vector<int> holders(s.window_references.size(), 0);
  size_t begin = 0;
  for (const SequenceSnapshot& q : s.sequences) {
    const auto fail = [&q](const std::string& what) {
      return "sequence " + std::to_string(q.id) + ": " + what;
    };
    if (q.window_block_count != (s.window_blocks_total > 0 ? q.blocks : 0))
      return fail("the table of the window is not as long as the other");
    for (size_t i = 0; i < q.window_block_count; ++i) {
      const kv::SlotId id = s.table_window_blocks[begin + i];
      const bool seen = static_cast<int>(i) >= q.first_window;
      if (seen != (id != kv::kNoSlot)) return fail("holds a block behind its window, or lacks one");
      if (seen) ++holders[static_cast<size_t>(id)];
    }
    if (q.copy_from == kv::kNoBlock && q.window_block_count > 0 &&
        q.first_window != FirstWindowBlock(q.computed, s.window))
      return fail("its window begins at the wrong block");
    begin += q.window_block_count;
    if (s.window_blocks_total > 0 &&
        (q.window_copy != kv::kNoSlot) != (q.copy_from != kv::kNoBlock))
      return fail("copies a block in some layers only");
    if (q.window_copy != kv::kNoSlot) ++holders[static_cast<size_t>(q.window_copy)];
  }
  for (const kv::SlotId id : s.held_window_blocks) ++holders[static_cast<size_t>(id)];
  int active = 0;
  for (size_t id = 0; id < holders.size(); ++id) {
    if (holders[id] != s.window_references[id]) {
      return "window block " + std::to_string(id) + " has " +
             std::to_string(s.window_references[id]) + " references and " +
             std::to_string(holders[id]) + " holders";
    }
    active += holders[id] > 0 ? 1 : 0;
  }
  if (active != s.window_blocks_active || active > s.active)
    return "more window blocks are active than blocks";
  for (size_t b = 0; b < s.attached_window_blocks.size(); ++b) {
    if (s.attached_window_blocks[b] != kv::kNoSlot && !s.block_indexed[b])
      return "block " + std::to_string(b) + " has a window block and is not in the index";
  }
  return "";
}

}  // namespace

std::string FindViolation(const EngineSnapshot& s) {
  if (s.free + s.cached + s.active != s.total)
    return "blocks are lost: free + cached + active != total";
  if (s.promised < 0 || s.promised > s.free + s.cached)
    return "more blocks are promised than could be given";
  if (s.running > s.max_num_seqs) return "more sequences run than may";
  if (s.no_evict && s.preemptions > 0) return "no_evict preempted";

  std::vector<int> holders(s.references.size(), 0);
  int running = 0, waiting = 0, idle = 0, promised = 0;
  for (const SequenceSnapshot& q : s.sequences) {
    const auto fail = [&q](const std::string& what) {
      return "sequence " + std::to_string(q.id) + " (" + std::string(StateName(q.state)) +
             "): " + what;
    };
    running += q.state == SequenceState::kRunning ? 1 : 0;
    waiting += q.state == SequenceState::kWaiting ? 1 : 0;
    const RecurrentState& r = q.recurrent;
    const bool holds = q.blocks > 0 || q.copy_from != kv::kNoBlock || r.live != kv::kNoSlot;
    idle += holds && q.state != SequenceState::kRunning ? 1 : 0;
    promised += q.promised;
    if (q.state == SequenceState::kFinished && (holds || q.promised > 0))
      return fail("holds blocks after its end");
    if (q.promised > 0 && q.state != SequenceState::kRunning)
      return fail("keeps a promise while it does not run");
    if (q.computed > q.tokens) return fail("computed more than there is");
    if (q.tokens > q.target_tokens) return fail("is longer than its target");
    if (q.computed > static_cast<int>(q.blocks) * kBlockTokens)
      return fail("has KV without blocks");
    if (static_cast<int>(q.blocks) > BlocksFor(q.computed))
      return fail("holds more than one block it does not use");
    if (q.indexed * kBlockTokens > q.computed) return fail("indexed what it has not computed");
    if (s.states_total > 0) {
      if (q.state == SequenceState::kRunning && r.live == kv::kNoSlot)
        return fail("runs without a recurrent state");
      if (r.live == kv::kNoSlot &&
          (q.blocks > 0 || r.from != kv::kNoSlot || r.fork != kv::kNoSlot || r.tokens >= 0))
        return fail("holds memory without a recurrent state");
      if (r.live != kv::kNoSlot && q.computed > 0 && r.tokens != q.computed &&
          r.from == kv::kNoSlot)
        return fail("has a recurrent state of another position");
    }
    if (q.preemptions > s.max_preemptions) return fail("was preempted too often");
    if (q.overtaken > s.max_overtakes) return fail("was overtaken too often");
    for (size_t i = 0; i < q.blocks; ++i) {
      const kv::BlockId b = s.table_blocks[q.first_block + i];
      if (!s.table_generation_matches[q.first_block + i])
        return fail("holds a block that was given to somebody else");
      ++holders[static_cast<size_t>(b)];
    }
    if (q.copy_from != kv::kNoBlock) ++holders[static_cast<size_t>(q.copy_from)];
  }
  for (const kv::BlockId b : s.held_blocks) ++holders[static_cast<size_t>(b)];
  if (running != s.running || waiting != s.waiting) return "the scheduler's lists miss a sequence";
  if (idle != s.idle_holders) return "the list of idle holders is wrong";
  if (promised != s.promised) return "promises do not add up";
  int active = 0;
  for (size_t b = 0; b < holders.size(); ++b) {
    if (holders[b] != s.references[b]) {
      return "block " + std::to_string(b) + " has " + std::to_string(s.references[b]) +
             " references and " + std::to_string(holders[b]) + " holders";
    }
    active += holders[b] > 0 ? 1 : 0;
  }
  if (active != s.active) return "active blocks are miscounted";
  std::string why = FindStateViolation(s);
  return why.empty() ? FindWindowViolation(s) : why;
}

}  // namespace tutti::engine
