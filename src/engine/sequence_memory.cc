#include "engine/sequence_memory.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "engine/policy/order.h"
#include "engine/policy/window.h"

namespace tutti::engine {

void SequenceMemory::Find(const Sequence& s, Reuse& reuse, bool partial) const {
  reuse.found = {};
  reuse.blocks.clear();
  reuse.queried = 0;
  reuse.state = kv::kNoSlot;
  reuse.branch = 0;
  reuse.window_blocks.clear();
  reuse.partial_window_block = kv::kNoSlot;
  if (!Fresh(s) || s.reusable() == 0) return;
  kv::PrefixIndex::Match& found = reuse.found;
  if (s.root != kv::kNoRoot) {
    const auto known = static_cast<size_t>(s.reusable());
    const auto tokens = std::span<const TokenId>(s.tokens).first(known);
    reuse.queried = static_cast<int>(known);
    found = pool_.index().Lookup(s.root, tokens, reuse.blocks);
    if (stateful() || windowed()) {
      const int known_blocks = found.full_blocks;
      reuse.blocks.clear();
      found = pool_.index().LookupWith(s.root, tokens,
                                       {.states = stateful() ? &states_ : nullptr,
                                        .window_blocks = windowed() ? &window_blocks_ : nullptr,
                                        .window = window_,
                                        .partial = partial},
                                       reuse.blocks);
      CHECK(FindWindowBlocks(nullptr, reuse));
      if (stateful() && known_blocks > found.full_blocks)
        reuse.branch = known_blocks * kBlockTokens;
      if (!stateful()) {
        // No checkpoint is needed.
      } else if (found.partial != kv::kNoBlock) {
        reuse.state = states_.Of(found.partial);
      } else if (found.full_blocks > 0) {
        reuse.state = states_.Of(reuse.blocks.back());
      }
    }
  }
  if (partial && !s.scoring()) FindWithSibling(s, reuse);
}

void SequenceMemory::FindWithSibling(const Sequence& s, Reuse& reuse) const {
  kv::PrefixIndex::Match& found = reuse.found;
  const int shared = s.prompt_tokens - 1;
  if (found.full_blocks * kBlockTokens + found.partial_tokens >= shared) return;
  for (const Sequence* other : s.siblings) {
    if (other == &s || other->computed < shared || BlocksFor(shared) > other->blocks.size())
      continue;
    if (stateful() && other->recurrent.fork == kv::kNoSlot) continue;
    const auto ids = other->blocks.ids();
    if (windowed()) {
      Reuse shares;
      shares.found = {.full_blocks = shared / kBlockTokens,
                      .partial_tokens = shared % kBlockTokens};
      shares.blocks.assign(ids.begin(), ids.begin() + BlocksFor(shared));
      if (shares.found.partial_tokens > 0) shares.found.partial = shares.blocks.back();
      if (!FindWindowBlocks(other, shares)) continue;
      reuse.window_blocks = std::move(shares.window_blocks);
      reuse.partial_window_block = shares.partial_window_block;
    }
    found.full_blocks = shared / kBlockTokens;
    found.partial_tokens = shared % kBlockTokens;
    found.partial =
        found.partial_tokens > 0 ? ids[static_cast<size_t>(found.full_blocks)] : kv::kNoBlock;
    reuse.blocks.assign(ids.begin(), ids.begin() + found.full_blocks);
    reuse.state = other->recurrent.fork;
    reuse.branch = 0;
    return;
  }
}

bool SequenceMemory::FindWindowBlocks(const Sequence* sibling, Reuse& reuse) const {
  reuse.window_blocks.clear();
  reuse.partial_window_block = kv::kNoSlot;
  if (!windowed()) return true;
  const kv::PrefixIndex::Match& found = reuse.found;
  const int end = found.full_blocks * kBlockTokens + found.partial_tokens;
  const auto slot_of = [&](int i, kv::BlockId block) {
    const kv::SlotId own =
        sibling == nullptr ? kv::kNoSlot : sibling->window_blocks.ids[static_cast<size_t>(i)];
    return own != kv::kNoSlot ? own : window_blocks_.Of(block);
  };
  for (int i = found.full_blocks - 1; i >= FirstWindowBlock(end, window_); --i) {
    reuse.window_blocks.push_back(slot_of(i, reuse.blocks[static_cast<size_t>(i)]));
    if (reuse.window_blocks.back() == kv::kNoSlot) return false;
  }
  if (found.partial == kv::kNoBlock) return true;
  reuse.partial_window_block = slot_of(found.full_blocks, found.partial);
  return reuse.partial_window_block != kv::kNoSlot;
}

int SequenceMemory::Revived(const Reuse& reuse) const {
  const auto unheld = [&](kv::BlockId block) { return pool_.references(block) == 0; };
  const auto revived = std::count_if(reuse.blocks.begin(), reuse.blocks.end(), unheld);
  const bool partial = reuse.found.partial != kv::kNoBlock && unheld(reuse.found.partial);
  return static_cast<int>(revived) + (partial ? 1 : 0);
}

bool SequenceMemory::DropUnheldPartial(const Sequence& s, Reuse& reuse) const {
  kv::PrefixIndex::Match& found = reuse.found;
  if (found.partial == kv::kNoBlock || pool_.references(found.partial) > 0) return false;
  if (stateful() || windowed()) {  // the full blocks before it may lack what a hit needs
    Find(s, reuse, /*partial=*/false);
    return true;
  }
  found.partial = kv::kNoBlock;
  found.partial_tokens = 0;
  return true;
}

bool SequenceMemory::StateFits(const Sequence& s, const Reuse& reuse) const {
  if (!stateful() || s.recurrent.live != kv::kNoSlot) return true;
  const bool revives = reuse.state != kv::kNoSlot && states_.references(reuse.state) == 0;
  return states_.available() >= (revives ? 2 : 1);
}

bool SequenceMemory::DropForState(const Sequence& s, Reuse& reuse) const {
  if (reuse.state == kv::kNoSlot || StateFits(s, reuse) || states_.available() == 0) return false;
  reuse.found = {};
  reuse.blocks.clear();
  reuse.state = kv::kNoSlot;
  reuse.window_blocks.clear();
  reuse.partial_window_block = kv::kNoSlot;
  return true;
}

void SequenceMemory::Start(Sequence& s, const Reuse& reuse) {
  if (stateful()) {
    // The reference comes first: it protects the checkpoint from being taken as the slot.
    s.recurrent.from = reuse.state;
    if (reuse.state != kv::kNoSlot) states_.Reference(reuse.state);
    s.recurrent.live = states_.Take();
    CHECK(s.recurrent.live != kv::kNoSlot);
    s.recurrent.tokens = -1;
    s.recurrent.branch = reuse.branch;
  }
  if (windowed()) {
    WindowTable& w = s.window_blocks;
    w.ids.assign(reuse.blocks.size(), kv::kNoSlot);
    w.first = static_cast<int>(reuse.blocks.size() - reuse.window_blocks.size());
    for (size_t i = 0; i < reuse.window_blocks.size(); ++i) {
      window_blocks_.Reference(reuse.window_blocks[i]);
      w.ids[w.ids.size() - 1 - i] = reuse.window_blocks[i];
    }
    w.copy_from = reuse.partial_window_block;
    if (w.copy_from != kv::kNoSlot) window_blocks_.Reference(w.copy_from);
  }
  pool_.Share(s.blocks, reuse.blocks);
  s.computed = reuse.found.full_blocks * kBlockTokens;
  s.indexed = s.root == kv::kNoRoot ? 0 : reuse.found.full_blocks;
  s.found = s.indexed;
  if (reuse.found.partial == kv::kNoBlock) return;
  pool_.Retain(reuse.found.partial);
  s.copy_from = reuse.found.partial;
  s.copy_tokens = reuse.found.partial_tokens;
}

void SequenceMemory::DropCopy(Sequence& s) {
  if (s.copy_from == kv::kNoBlock) return;
  pool_.Drop(std::exchange(s.copy_from, kv::kNoBlock));
  s.copy_tokens = 0;
  kv::SlotId& window = s.window_blocks.copy_from;
  if (window != kv::kNoSlot) window_blocks_.Drop(std::exchange(window, kv::kNoSlot));
}

void SequenceMemory::IndexFull(Sequence& s) {
  if (s.root == kv::kNoRoot) return;
  for (; (s.indexed + 1) * kBlockTokens <= s.computed; ++s.indexed) {
    const auto from = static_cast<size_t>(s.indexed * kBlockTokens);
    const kv::BlockId block =
        pool_.Index(s.blocks, s.indexed, s.root,
                    std::span<const TokenId>(s.tokens).subspan(from, kBlockTokens));
    if (windowed()) AttachWindowBlock(s, s.indexed, block);
  }
}

void SequenceMemory::Release(Sequence& s, bool reusable) {
  DropCopy(s);
  kv::BlockId tail = kv::kNoBlock;  // where the sequence ends
  if (!reusable) pool_.Forget(s.blocks, s.found);
  if (reusable && s.root != kv::kNoRoot) {
    const int indexed = s.indexed * kBlockTokens;
    if (s.computed > indexed && s.indexed < s.blocks.size()) {
      tail =
          pool_.Index(s.blocks, s.indexed, s.root,
                      std::span<const TokenId>(s.tokens).subspan(
                          static_cast<size_t>(indexed), static_cast<size_t>(s.computed - indexed)));
      if (windowed()) AttachWindowBlock(s, s.indexed, tail);
    } else if (s.computed > 0 && s.computed == indexed) {
      tail = s.blocks[s.indexed - 1];
    }
  }
  AttachLive(s, tail);
  if (reusable && transfer_ != nullptr) transfer_->Save(s, tail);
  DropStates(s);
  DropWindowBlocks(s);
  pool_.Release(s.blocks);
  s.computed = 0;
  s.indexed = 0;
  s.found = 0;
}

// Block `i` of the sequence is `block` of the index now. Where that has its window block already, a
// full block changes over to it, so that a window block is active for each active block at most.
void SequenceMemory::AttachWindowBlock(Sequence& s, int i, kv::BlockId block) {
  kv::SlotId& own = s.window_blocks.ids[static_cast<size_t>(i)];
  const kv::SlotId kept = window_blocks_.Attach(block, own);
  if (kept == own || s.blocks[i] != block) return;
  window_blocks_.Reference(kept);
  window_blocks_.Drop(std::exchange(own, kept));
}

void SequenceMemory::AddWindowBlocks(Sequence& s, int count) {
  if (!windowed()) return;
  while (window_blocks_.available() < count && ReclaimIdle(s)) {
  }
  CHECK_GE(window_blocks_.available(), count) << "sequence " << s.id;
  for (int i = 0; i < count; ++i) s.window_blocks.ids.push_back(window_blocks_.Take());
}

void SequenceMemory::RemoveWindowBlocks(Sequence& s, int count) {
  if (!windowed()) return;
  for (int i = 0; i < count; ++i) {
    window_blocks_.Drop(s.window_blocks.ids.back());
    s.window_blocks.ids.pop_back();
  }
}

void SequenceMemory::FreeBehindWindow(Sequence& s) {
  if (!windowed()) return;
  WindowTable& w = s.window_blocks;
  for (const int end = FirstWindowBlock(s.computed, window_); w.first < end; ++w.first)
    window_blocks_.Drop(std::exchange(w.ids[static_cast<size_t>(w.first)], kv::kNoSlot));
}

void SequenceMemory::DropWindowBlocks(Sequence& s) {
  for (const kv::SlotId id : s.window_blocks.ids) {
    if (id != kv::kNoSlot) window_blocks_.Drop(id);
  }
  s.window_blocks.ids.clear();
  s.window_blocks.first = 0;
}

// The slot itself becomes the checkpoint: the end of a sequence copies nothing.
void SequenceMemory::AttachLive(Sequence& s, kv::BlockId tail) {
  const RecurrentState& r = s.recurrent;
  if (tail != kv::kNoBlock && r.live != kv::kNoSlot && r.tokens == s.computed)
    states_.Attach(tail, r.live);
}

void SequenceMemory::DropStates(Sequence& s) {
  for (const kv::SlotId slot : {s.recurrent.live, s.recurrent.from, s.recurrent.fork}) {
    if (slot != kv::kNoSlot) states_.Drop(slot);
  }
  s.recurrent = {};
}

void SequenceMemory::Restart(Sequence& s) {
  DropCopy(s);
  DropWindowBlocks(s);
  pool_.Release(s.blocks);
  s.computed = 0;
  s.indexed = 0;
  const kv::SlotId from = std::exchange(s.recurrent.from, kv::kNoSlot);
  if (from != kv::kNoSlot) states_.Drop(from);
  s.recurrent.tokens = -1;
}

bool SequenceMemory::SiblingsWait(const Sequence& s) {
  return std::any_of(s.siblings.begin(), s.siblings.end(), [&](const Sequence* other) {
    return other != &s && !other->has_run && other->state() != SequenceState::kFinished;
  });
}

void SequenceMemory::DropForks(const Sequence& s) {
  if (!stateful() || SiblingsWait(s)) return;
  for (Sequence* other : s.siblings) {
    kv::SlotId& fork = other->recurrent.fork;
    if (fork != kv::kNoSlot) states_.Drop(std::exchange(fork, kv::kNoSlot));
  }
}

bool SequenceMemory::StateLost(const Sequence& s) {
  const RecurrentState& r = s.recurrent;
  return r.live != kv::kNoSlot && r.from == kv::kNoSlot && s.computed > 0;
}

void SequenceMemory::CommitState(Sequence& s, kv::SlotId save) {
  RecurrentState& r = s.recurrent;
  if (r.live == kv::kNoSlot) return;
  r.tokens = s.computed;
  if (r.from != kv::kNoSlot) states_.Drop(std::exchange(r.from, kv::kNoSlot));
  if (save == kv::kNoSlot) return;
  const bool full = s.computed % kBlockTokens == 0 && s.indexed * kBlockTokens == s.computed;
  if (full && s.root != kv::kNoRoot) states_.Attach(s.blocks[s.indexed - 1], save);
  if (s.computed == s.prompt_tokens - 1 && r.fork == kv::kNoSlot && SiblingsWait(s)) {
    r.fork = save;
    return;
  }
  states_.Drop(save);
  if (s.computed <= s.prompt_tokens || !full) return;
  if (r.rolling > 0) {
    const kv::BlockId before = s.blocks[r.rolling / kBlockTokens - 1];
    const kv::SlotId old = states_.Of(before);
    if (old != kv::kNoSlot && states_.references(old) == 0) states_.Forget(before);
  }
  r.rolling = s.computed;
}

void SequenceMemory::SetIdle(Sequence& s, bool idle) {
  const auto at = std::find(idle_.begin(), idle_.end(), &s);
  if (idle == (at != idle_.end())) return;
  if (idle) {
    idle_.push_back(&s);
  } else {
    *at = idle_.back();
    idle_.pop_back();
  }
}

bool SequenceMemory::CanReclaim() const {
  return !idle_.empty() || (transfer_ != nullptr && transfer_->loads() > 0);
}

bool SequenceMemory::ReclaimIdle(const Sequence& except) {
  // What is being read belongs to sequences that do not run yet.
  if (transfer_ != nullptr && transfer_->EndLoads()) return true;
  // Paused sequences first, then those that wait with blocks; of each the one that would keep last.
  Sequence* victim = nullptr;
  for (Sequence* s : idle_) {
    if (s == &except) continue;
    const bool paused = s->state() == SequenceState::kPaused;
    const bool victim_paused = victim != nullptr && victim->state() == SequenceState::kPaused;
    if (victim == nullptr || (paused && !victim_paused) ||
        (paused == victim_paused && KeepsBefore(KeepKeyOf(*victim), KeepKeyOf(*s)))) {
      victim = s;
    }
  }
  if (victim == nullptr) return false;
  SetIdle(*victim, false);
  Release(*victim, /*reusable=*/true);
  return true;
}

}  // namespace tutti::engine
