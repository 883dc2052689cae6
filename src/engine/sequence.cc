#include "engine/sequence.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "engine/policy/order.h"

namespace tutti::engine {

std::string_view StateName(SequenceState state) {
  constexpr std::array<std::string_view, 4> kNames = {"waiting", "running", "paused", "finished"};
  return kNames[static_cast<size_t>(state)];
}

void Sequence::SetState(SequenceState to) {
  bool legal = false;
  switch (state_) {
    case SequenceState::kWaiting:  // admitted; held back before it ran; cancelled or expired in the
                                   // queue
      legal = to == SequenceState::kRunning || to == SequenceState::kPaused ||
              to == SequenceState::kFinished;
      break;
    case SequenceState::kRunning:  // preempted; reader behind; done, cancelled or failed
      legal = to == SequenceState::kWaiting || to == SequenceState::kPaused ||
              to == SequenceState::kFinished;
      break;
    case SequenceState::kPaused:  // may continue; cancelled
      legal = to == SequenceState::kWaiting || to == SequenceState::kFinished;
      break;
    case SequenceState::kFinished:
      break;
  }
  CHECK(legal) << "sequence " << id << ": " << StateName(state_) << " -> " << StateName(to);
  state_ = to;
}

void SequenceMemory::Find(const Sequence& s, Reuse& reuse) const {
  reuse.found = {};
  reuse.blocks.clear();
  reuse.queried = 0;
  if (!Fresh(s) || s.scoring()) return;
  kv::PrefixIndex::Match& found = reuse.found;
  if (s.root != kv::kNoRoot) {
    const size_t known = s.tokens.size() - 1;  // one at least is computed anew, to draw from
    reuse.queried = static_cast<int>(known);
    found =
        pool_.index().Lookup(s.root, std::span<const TokenId>(s.tokens).first(known), reuse.blocks);
  }
  const int shared = s.prompt_tokens - 1;
  if (found.full_blocks * kBlockTokens + found.partial_tokens >= shared) return;
  for (const Sequence* other : s.siblings) {
    if (other == &s || other->computed < shared || BlocksFor(shared) > other->blocks.size())
      continue;
    const auto ids = other->blocks.ids();
    found.full_blocks = shared / kBlockTokens;
    found.partial_tokens = shared % kBlockTokens;
    found.partial =
        found.partial_tokens > 0 ? ids[static_cast<size_t>(found.full_blocks)] : kv::kNoBlock;
    reuse.blocks.assign(ids.begin(), ids.begin() + found.full_blocks);
    return;
  }
}

int SequenceMemory::Revived(const Reuse& reuse) const {
  const auto unheld = [&](kv::BlockId block) { return pool_.references(block) == 0; };
  const auto revived = std::count_if(reuse.blocks.begin(), reuse.blocks.end(), unheld);
  const bool partial = reuse.found.partial != kv::kNoBlock && unheld(reuse.found.partial);
  return static_cast<int>(revived) + (partial ? 1 : 0);
}

bool SequenceMemory::DropUnheldPartial(Reuse& reuse) const {
  kv::PrefixIndex::Match& found = reuse.found;
  if (found.partial == kv::kNoBlock || pool_.references(found.partial) > 0) return false;
  found.partial = kv::kNoBlock;
  found.partial_tokens = 0;
  return true;
}

void SequenceMemory::Start(Sequence& s, const Reuse& reuse) {
  pool_.Share(s.blocks, reuse.blocks);
  s.computed = reuse.found.full_blocks * kBlockTokens;
  s.indexed = s.root == kv::kNoRoot ? 0 : reuse.found.full_blocks;
  if (reuse.found.partial == kv::kNoBlock) return;
  pool_.Retain(reuse.found.partial);
  s.copy_from = reuse.found.partial;
  s.copy_tokens = reuse.found.partial_tokens;
}

void SequenceMemory::DropCopy(Sequence& s) {
  if (s.copy_from == kv::kNoBlock) return;
  pool_.Drop(std::exchange(s.copy_from, kv::kNoBlock));
  s.copy_tokens = 0;
}

void SequenceMemory::IndexFull(Sequence& s) {
  if (s.root == kv::kNoRoot) return;
  for (; (s.indexed + 1) * kBlockTokens <= s.computed; ++s.indexed) {
    const auto from = static_cast<size_t>(s.indexed * kBlockTokens);
    pool_.Index(s.blocks, s.indexed, s.root,
                std::span<const TokenId>(s.tokens).subspan(from, kBlockTokens));
  }
}

void SequenceMemory::Release(Sequence& s, bool keep_tail) {
  DropCopy(s);
  if (keep_tail && s.root != kv::kNoRoot && s.computed > s.indexed * kBlockTokens &&
      s.indexed < s.blocks.size()) {
    const auto from = static_cast<size_t>(s.indexed * kBlockTokens);
    pool_.Index(
        s.blocks, s.indexed, s.root,
        std::span<const TokenId>(s.tokens).subspan(from, static_cast<size_t>(s.computed) - from));
  }
  pool_.Release(s.blocks);
  s.computed = 0;
  s.indexed = 0;
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

bool SequenceMemory::ReclaimIdle(const Sequence& except) {
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
  Release(*victim, /*keep_tail=*/true);
  return true;
}

}  // namespace tutti::engine
