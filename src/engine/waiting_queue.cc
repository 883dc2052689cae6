#include "engine/waiting_queue.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "engine/policy/order.h"
#include "engine/policy/prefill_chunk.h"

namespace tutti::engine {
namespace {
bool ArrivedBefore(const Sequence& a, const Sequence& b) {
  return a.arrival < b.arrival || (a.arrival == b.arrival && a.choice < b.choice);
}
}  // namespace

uint32_t WaitingQueue::JoinTenant(const std::string& name, double weight) {
  const uint32_t tenant = shares_.Join(name, weight);
  if (lists_.size() < shares_.size()) lists_.resize(shares_.size());
  return tenant;
}

void WaitingQueue::LeaveTenant(uint32_t tenant) {
  if (shares_.Leave(tenant)) CHECK_EQ(lists_[tenant].waiting, 0);
}

WaitingQueue::List& WaitingQueue::ListOf(Sequence& sequence) {
  return lists_[sequence.tenant].by_class[static_cast<size_t>(sequence.request->priority)];
}

void WaitingQueue::LiftToThoseWaiting(uint32_t tenant) {
  std::optional<double> least;
  for (uint32_t i = 0; i < lists_.size(); ++i) {
    if (lists_[i].waiting > 0) least = std::min(least.value_or(service(i)), service(i));
  }
  if (least.has_value()) shares_.Lift(tenant, *least);
}

void WaitingQueue::Insert(Sequence& sequence) {
  if (lists_[sequence.tenant].waiting == 0) LiftToThoseWaiting(sequence.tenant);
  List& list = ListOf(sequence);
  // New sequences go to the end. Preempted ones are older than most, so their place is searched
  // from the front.
  Sequence* after = list.last;
  if (after != nullptr && !ArrivedBefore(*after, sequence)) {
    after = nullptr;
    for (Sequence* s = list.first; s != nullptr && ArrivedBefore(*s, sequence); s = s->next)
      after = s;
  }
  sequence.previous = after;
  sequence.next = after == nullptr ? list.first : after->next;
  (sequence.previous == nullptr ? list.first : sequence.previous->next) = &sequence;
  (sequence.next == nullptr ? list.last : sequence.next->previous) = &sequence;
  ++lists_[sequence.tenant].waiting;
  ++size_;
  if (sequence.request->adapter != nullptr) sequence.request->adapter->use().waiting.fetch_add(1);
}

void WaitingQueue::Remove(Sequence& sequence) {
  List& list = ListOf(sequence);
  if (list.cursor == &sequence) list.cursor = sequence.next;
  (sequence.previous == nullptr ? list.first : sequence.previous->next) = sequence.next;
  (sequence.next == nullptr ? list.last : sequence.next->previous) = sequence.previous;
  sequence.previous = sequence.next = nullptr;
  --lists_[sequence.tenant].waiting;
  --size_;
  if (sequence.request->adapter != nullptr) sequence.request->adapter->use().waiting.fetch_sub(1);
}

int WaitingQueue::ShortestFirst() const {
  size_t shortest = 0;
  for (const Lists& tenant : lists_) {
    for (const List& list : tenant.by_class) {
      const Sequence* first = list.first;
      while (first != nullptr && first->following) first = first->next;
      if (first == nullptr) continue;
      const size_t tokens = first->refused_at ? size_t{kSmallestChunk} : first->tokens.size();
      shortest = shortest == 0 ? tokens : std::min(shortest, tokens);
    }
  }
  return static_cast<int>(shortest);
}

TimePoint WaitingQueue::OldestQueuedAt() const {
  TimePoint oldest = TimePoint::max();
  for (const Lists& tenant : lists_) {
    for (const List& list : tenant.by_class) {
      if (list.first != nullptr) oldest = std::min(oldest, list.first->queued_at);
    }
  }
  return oldest;
}

WaitingQueue::Scan::Scan(WaitingQueue& queue, TimePoint now, Duration aging)
    : queue_(queue), now_(now), aging_(aging) {
  for (Lists& tenant : queue_.lists_) {
    for (List& list : tenant.by_class) list.cursor = list.first;
  }
}

Sequence* WaitingQueue::Scan::Next() {
  List* best = nullptr;
  double best_service = 0;
  int best_class = 0;
  for (size_t i = 0; i < queue_.lists_.size(); ++i) {
    Lists& tenant = queue_.lists_[i];
    if (tenant.waiting == 0) continue;
    const double service = queue_.service(static_cast<uint32_t>(i));
    for (List& list : tenant.by_class) {
      const Sequence* s = list.cursor;
      if (s == nullptr) continue;
      const int effective = EffectiveClass(s->request->priority, now_ - s->queued_at, aging_);
      const bool before = best == nullptr || service < best_service ||
                          (service == best_service &&
                           (effective < best_class ||
                            (effective == best_class && ArrivedBefore(*s, *best->cursor))));
      if (before) {
        best = &list;
        best_service = service;
        best_class = effective;
      }
    }
  }
  if (best == nullptr) return nullptr;
  Sequence* found = best->cursor;
  best->cursor = found->next;
  return found;
}

}  // namespace tutti::engine
