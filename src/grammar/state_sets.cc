#include "grammar/state_sets.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::grammar {
namespace {

// Sets of at most this many places are searched one by one.
constexpr size_t kFewPlaces = 32;
constexpr size_t kMaxPending = 4'096;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xFF51AFD7ED558CCDULL;
  return hash ^ (hash >> 32);
}

}  // namespace

size_t StateSets::PlaceHash::operator()(const Place& place) const {
  return static_cast<size_t>(
      Mix(Mix(place.state, place.frame), uint64_t{place.count} + 0x9E3779B97F4A7C15ULL));
}

StateSets::StateSets(std::shared_ptr<const Automaton> automaton)
    : automaton_(std::move(automaton)), classes_(automaton_->classes()) {
  sets_.emplace_back();  // kDead
  sets_.emplace_back();  // kOverflow
  next_.assign(classes_, kDead);
  next_.resize(size_t{2} * classes_, kOverflow);
  steps_.resize(next_.size());
  pending_of_.resize(automaton_->rules());
  frames_.emplace_back();  // kBottom
  const Automaton::Rule& root = automaton_->rule(automaton_->root());
  if (!root.counted || root.max > 0) Visit(root.start, kBottom, 0);
  if (root.counted && root.min == 0) End(kBottom);
  start_ = Close();
}

SetId StateSets::Next(SetId set, std::string_view bytes) {
  for (const char byte : bytes) {
    if (set == kDead) break;
    set = Next(set, static_cast<uint8_t>(byte));
  }
  return set;
}

SetId StateSets::MakeNext(SetId set, uint8_t byte) {
  const Set from = sets_[set];
  // Most bytes follow no place; a set of very many is not searched for each of them.
  if (!from.follows[byte]) {
    const size_t at = set * classes_ + automaton_->ClassOf(byte);
    steps_[at] = 0;
    return next_[at] = kDead;
  }
  steps_now_ = 0;
  Count(from.end - from.begin);
  for (uint32_t i = from.begin; i < from.end; ++i) {
    const Place place = places_[i];
    const Automaton::State& state = automaton_->state(place.state);
    const Automaton::Rule& rule = automaton_->rule(state.rule);
    for (const Automaton::ByteEdge& edge : automaton_->bytes(state)) {
      if (byte < edge.first || edge.last < byte) continue;
      uint32_t count = place.count;
      if (rule.limited) {
        // Only where the text can still end within the limit.
        const Automaton::State& to = automaton_->state(edge.to);
        if (to.counts) ++count;
        if (count > rule.max || to.least > rule.max - count) continue;
      }
      Visit(edge.to, place.frame, count);
    }
  }
  const SetId to = Close();
  const size_t at = set * classes_ + automaton_->ClassOf(byte);
  next_[at] = to;
  steps_[at] = static_cast<uint16_t>(std::min<uint32_t>(steps_now_ / kStepUnit, UINT16_MAX));
  return to;
}

bool StateSets::AlwaysOverflows(const Automaton& automaton, Budget& budget) {
  // States in which a set can begin: where a byte leads, and where a rule returns to.
  std::vector<bool> begins(automaton.states(), false);
  begins[automaton.rule(automaton.root()).start] = true;
  for (uint32_t id = 0; id < automaton.states(); ++id) {
    const Automaton::State& state = automaton.state(id);
    for (const Automaton::ByteEdge& edge : automaton.bytes(state)) begins[edge.to] = true;
    for (const Automaton::CallEdge& call : automaton.calls(state)) begins[call.to] = true;
  }
  // Each state counts once for all its frames and counts: Close() produces at least as many places.
  std::vector<uint32_t> seen_from(automaton.states(), UINT32_MAX);
  std::vector<uint32_t> work;
  for (uint32_t id = 0; id < automaton.states(); ++id) {
    if (!begins[id]) continue;
    size_t steps = 0, with_bytes = 0;
    work.assign(1, id);
    seen_from[id] = id;
    const auto visit = [&](uint32_t to) {
      if (std::exchange(seen_from[to], id) != id) work.push_back(to);
    };
    for (size_t i = 0; i < work.size(); ++i) {
      const Automaton::State& state = automaton.state(work[i]);
      steps += 1 + automaton.empties(state).size() + automaton.calls(state).size();
      if (state.bytes_begin != state.bytes_end) ++with_bytes;
      for (const uint32_t to : automaton.empties(state)) visit(to);
      for (const Automaton::CallEdge& call : automaton.calls(state)) {
        const Automaton::Rule& rule = automaton.rule(call.rule);
        if (!rule.counted || rule.max > 0) visit(rule.start);
      }
      if (with_bytes > kMaxPlaces || work.size() > 4 * size_t{kMaxPlaces} || steps > kMaxSteps)
        return true;
    }
    if (!budget.Take(steps)) return false;
  }
  return false;
}

void StateSets::Count(size_t steps) {
  steps_now_ += static_cast<uint32_t>(std::min<size_t>(steps, kMaxSteps));
  if (steps_now_ > kMaxSteps) overflowed_ = true;
}

void StateSets::Visit(uint32_t state, FrameId frame, uint32_t count) {
  const Place place{state, frame, count};
  if (work_.size() <= kFewPlaces) {
    if (std::find(work_.begin(), work_.end(), place) != work_.end()) return;
    work_.push_back(place);
    if (work_.size() > kFewPlaces) visited_.insert(work_.begin(), work_.end());
    return;
  }
  if (work_.size() >= 4 * size_t{kMaxPlaces}) {
    overflowed_ = true;
    return;
  }
  if (visited_.insert(place).second) work_.push_back(place);
}

void StateSets::End(FrameId frame) {
  if ((frame & kPending) != 0) {
    Pending& pending = pending_[frame & ~kPending];
    if (pending.ended) return;
    pending.ended = true;
    Count(pending.returns.size());
    for (size_t i = 0; i < pending_[frame & ~kPending].returns.size(); ++i) {
      const Return to = pending_[frame & ~kPending].returns[i];
      Visit(to.state, to.frame, 0);
    }
  } else if ((frame & kOpen) != 0) {
    open_returns_ |= 1U << (frame & ~kOpen);
  } else if (frame == kBottom) {
    complete_ = true;
  } else {
    const Frame& from = frames_[frame];
    Count(from.end - from.begin);
    for (uint32_t i = from.begin; i < from.end && !overflowed_; ++i) {
      const Return to = returns_[i];
      Visit(to.state, to.frame, 0);
    }
  }
}

void StateSets::EndItem(const Place& place) {
  const Automaton::Rule& rule = automaton_->rule(automaton_->state(place.state).rule);
  uint32_t count = place.count + 1;
  if (rule.max == kUnlimited) count = std::min(count, rule.min);
  if (count >= rule.min) End(place.frame);
  if (count < rule.max) Visit(rule.start, place.frame, count);
}

void StateSets::Call(const Automaton::CallEdge& call, const Place& from) {
  const Automaton::Rule& rule = automaton_->rule(call.rule);
  const auto begin = [&](FrameId frame) {
    if (!rule.counted || rule.max > 0) Visit(rule.start, frame, 0);
    if (rule.counted && rule.min == 0) End(frame);
  };
  // Behind the last call of a rule there is nothing to come back to but its caller.
  if (automaton_->state(call.to).only_ends) return begin(from.frame);
  const Return to{call.to, from.frame};
  const uint32_t at = pending_of_[call.rule];
  if (at < pending_.size() && pending_[at].rule == call.rule) {
    if (AddReturn(pending_[at], to) && pending_[at].ended) Visit(to.state, to.frame, 0);
    return;
  }
  if (pending_.size() >= kMaxPending) {
    overflowed_ = true;
    return;
  }
  pending_of_[call.rule] = static_cast<uint32_t>(pending_.size());
  pending_.push_back({.rule = call.rule, .returns = {to}});
  begin(kPending | static_cast<FrameId>(pending_.size() - 1));
}

bool StateSets::AddReturn(Pending& pending, const Return& to) {
  std::vector<Return>& returns = pending.returns;
  const auto key = [](const Return& one) { return uint64_t{one.state} << 32 | one.frame; };
  if (returns.size() < kFewPlaces) {
    if (std::find(returns.begin(), returns.end(), to) != returns.end()) return false;
  } else {
    if (pending.known.empty()) {
      for (const Return& one : returns) pending.known.insert(key(one));
    }
    if (!pending.known.insert(key(to)).second) return false;
  }
  returns.push_back(to);
  return true;
}

SetId StateSets::Close() {
  for (size_t i = 0; i < work_.size() && !overflowed_; ++i) {
    const Place place = work_[i];
    const Automaton::State& state = automaton_->state(place.state);
    Count(1 + (state.empties_end - state.empties_begin) + (state.calls_end - state.calls_begin));
    if (overflowed_) break;
    for (const uint32_t to : automaton_->empties(state)) Visit(to, place.frame, 0);
    for (const Automaton::CallEdge& call : automaton_->calls(state)) Call(call, place);
    if (!state.accepts) continue;
    if (automaton_->rule(state.rule).counted) {
      EndItem(place);
    } else {
      End(place.frame);
    }
  }
  std::vector<Place> places;
  for (const Place& place : work_) {
    if (overflowed_) break;
    const Automaton::State& state = automaton_->state(place.state);
    if (state.bytes_begin == state.bytes_end) continue;
    places.push_back({place.state, Settle(place.frame), place.count});
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  overflowed_ = overflowed_ || places.size() > kMaxPlaces;
  const SetId set = overflowed_ ? kOverflow : MakeSet(std::move(places), complete_, open_returns_);
  work_.clear();
  pending_.clear();
  visited_.clear();
  complete_ = false;
  overflowed_ = false;
  open_returns_ = 0;
  return set;
}

FrameId StateSets::Settle(FrameId frame) {
  if ((frame & kPending) == 0) return frame;
  const FrameId at = frame & ~kPending;
  if (pending_[at].final != kUnknown) return pending_[at].final;
  std::vector<Return> returns = pending_[at].returns;
  for (Return& to : returns) to.frame = Settle(to.frame);
  std::sort(returns.begin(), returns.end());
  returns.erase(std::unique(returns.begin(), returns.end()), returns.end());
  return pending_[at].final = MakeFrame(std::move(returns));
}

FrameId StateSets::MakeFrame(std::vector<Return> returns) {
  uint64_t hash = returns.size();
  uint32_t depth = 0;
  for (const Return& to : returns) {
    hash = Mix(Mix(hash, to.state), to.frame);
    depth = std::max(depth, DepthOf(to.frame) + 1);
  }
  if (depth > kMaxDepth) overflowed_ = true;
  const auto [first, last] = frame_ids_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Frame& known = frames_[at->second];
    if (std::equal(returns.begin(), returns.end(), returns_.begin() + known.begin,
                   returns_.begin() + known.end))
      return at->second;
  }
  Frame& frame = frames_.emplace_back();
  frame.begin = static_cast<uint32_t>(returns_.size());
  returns_.insert(returns_.end(), returns.begin(), returns.end());
  frame.end = static_cast<uint32_t>(returns_.size());
  frame.depth = depth;
  const auto id = static_cast<FrameId>(frames_.size() - 1);
  CHECK(id < kOpen);
  frame_ids_.emplace(hash, id);
  return id;
}

SetId StateSets::MakeSet(std::vector<Place> places, bool complete, uint32_t returns) {
  if (places.empty() && !complete && returns == 0) return kDead;
  uint64_t hash = Mix(places.size() * 2 + (complete ? 1 : 0), returns);
  for (const Place& place : places) hash = Mix(hash, PlaceHash()(place));
  const auto [first, last] = set_ids_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Set& known = sets_[at->second];
    if (known.complete == complete && known.returns == returns &&
        std::equal(places.begin(), places.end(), places_.begin() + known.begin,
                   places_.begin() + known.end))
      return at->second;
  }
  Set& set = sets_.emplace_back();
  set.begin = static_cast<uint32_t>(places_.size());
  places_.insert(places_.end(), places.begin(), places.end());
  set.end = static_cast<uint32_t>(places_.size());
  set.complete = complete;
  set.returns = returns;
  for (const Place& place : places) {
    for (const Automaton::ByteEdge& edge : automaton_->bytes(automaton_->state(place.state))) {
      for (uint32_t byte = edge.first; byte <= edge.last; ++byte) set.follows.set(byte);
    }
  }
  next_.resize(sets_.size() * classes_, kUnknown);
  steps_.resize(next_.size());
  const auto id = static_cast<SetId>(sets_.size() - 1);
  set_ids_.emplace(hash, id);
  return id;
}

std::vector<FrameId> StateSets::Frames(SetId set) const {
  std::vector<FrameId> frames;
  for (const Place& place : places(set)) {
    if (std::find(frames.begin(), frames.end(), place.frame) == frames.end())
      frames.push_back(place.frame);
  }
  return frames;
}

SetId StateSets::CutOff(SetId set, uint32_t reach) {
  if (sets_[set].cut_off != kUnknown) return sets_[set].cut_off;
  const std::vector<FrameId> frames = Frames(set);
  SetId cut = kDead;
  uint32_t exact = UINT32_MAX;
  if (frames.size() <= kMaxOpen) {
    std::vector<Place> places(this->places(set).begin(), this->places(set).end());
    for (Place& place : places) {
      const auto at = std::find(frames.begin(), frames.end(), place.frame) - frames.begin();
      place.frame = kOpen | static_cast<FrameId>(at);
      const Automaton::Rule& rule = automaton_->rule(automaton_->state(place.state).rule);
      if (rule.limited) {
        // A token ends at most `reach` characters, and `spare` more end any text.
        const uint32_t far = rule.max - place.count;
        if (far > rule.spare && far - rule.spare > reach) {
          exact = std::min(exact, far - rule.spare);
          place.count = 0;
        }
      }
      if (!rule.counted) continue;
      // An item has a byte at least, so that a token ends at most `reach` of them.
      if (rule.min > place.count && rule.min - place.count > reach) {
        exact = std::min(exact, rule.min - place.count - 1);
        place.count = 0;
      } else if (place.count >= rule.min && rule.max - place.count > reach) {
        if (rule.max != kUnlimited) exact = std::min(exact, rule.max - place.count);
        place.count = rule.min;
      }
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    cut = MakeSet(std::move(places), /*complete=*/false, /*returns=*/0);
  }
  sets_[set].cut_off = cut;
  sets_[set].exact_bytes = exact;
  return cut;
}

SetId StateSets::OpenAt(uint32_t state) {
  const Automaton::Rule& rule = automaton_->rule(automaton_->state(state).rule);
  return MakeSet({{state, kOpen, rule.counted ? rule.min : 0}}, /*complete=*/false, /*returns=*/0);
}

SetId StateSets::Resume(FrameId frame) {
  if (frames_[frame].resume != kUnknown) return frames_[frame].resume;
  steps_now_ = 0;
  End(frame);
  const SetId set = Close();
  return frames_[frame].resume = set;
}

FrameId StateSets::CopyFrame(StateSets& other, FrameId frame,
                             std::unordered_map<FrameId, FrameId>& copied) const {
  if (frame == kBottom) return kBottom;
  const auto known = copied.find(frame);
  if (known != copied.end()) return known->second;
  std::vector<Return> returns(returns_.begin() + frames_[frame].begin,
                              returns_.begin() + frames_[frame].end);
  for (Return& to : returns) to.frame = CopyFrame(other, to.frame, copied);
  std::sort(returns.begin(), returns.end());
  const FrameId made = other.MakeFrame(std::move(returns));
  copied.emplace(frame, made);
  return made;
}

SetId StateSets::CopyTo(StateSets& other, SetId set) const {
  std::unordered_map<FrameId, FrameId> copied;
  std::vector<Place> places(this->places(set).begin(), this->places(set).end());
  for (Place& place : places) place.frame = CopyFrame(other, place.frame, copied);
  std::sort(places.begin(), places.end());
  return other.MakeSet(std::move(places), sets_[set].complete, 0);
}

size_t StateSets::memory_bytes() const {
  // An entry of a hash table takes about 40 bytes.
  return sets_.size() * (sizeof(Set) + classes_ * (sizeof(SetId) + sizeof(uint16_t)) + 40) +
         places_.size() * sizeof(Place) + frames_.size() * (sizeof(Frame) + 40) +
         returns_.size() * sizeof(Return);
}

}  // namespace tutti::grammar
