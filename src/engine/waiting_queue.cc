#include "engine/waiting_queue.h"

#include <algorithm>

#include "base/check.h"
#include "engine/policy/order.h"

namespace tutti::engine {
namespace {
bool ArrivedBefore(const Sequence& a, const Sequence& b) {
  return a.arrival < b.arrival || (a.arrival == b.arrival && a.choice < b.choice);
}
}  // namespace

uint32_t WaitingQueue::JoinTenant(const std::string& name) {
  if (const auto it = index_.find(name); it != index_.end()) {
    ++tenants_[it->second].live;
    return it->second;
  }
  double least = 0;
  bool any = false;
  size_t slot = tenants_.size();
  for (size_t i = 0; i < tenants_.size(); ++i) {
    if (tenants_[i].live == 0) {
      slot = std::min(slot, i);
    } else if (!any || tenants_[i].service < least) {
      least = tenants_[i].service;
      any = true;
    }
  }
  if (slot == tenants_.size()) tenants_.emplace_back();
  Tenant& tenant = tenants_[slot];
  tenant.name = name;
  tenant.service = least;
  tenant.live = 1;
  index_.emplace(name, static_cast<uint32_t>(slot));
  return static_cast<uint32_t>(slot);
}

void WaitingQueue::LeaveTenant(uint32_t tenant) {
  Tenant& t = tenants_[tenant];
  CHECK_GT(t.live, 0);
  if (--t.live > 0) return;
  CHECK_EQ(t.waiting, 0);
  index_.erase(t.name);
}

WaitingQueue::List& WaitingQueue::ListOf(Sequence& sequence) {
  return tenants_[sequence.tenant].lists[static_cast<size_t>(sequence.request->priority)];
}

void WaitingQueue::Insert(Sequence& sequence) {
  List& list = ListOf(sequence);
  // New ones go to the end; those that come back are older than most and are found from the front.
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
  ++tenants_[sequence.tenant].waiting;
  ++size_;
}

void WaitingQueue::Remove(Sequence& sequence) {
  List& list = ListOf(sequence);
  if (list.cursor == &sequence) list.cursor = sequence.next;
  (sequence.previous == nullptr ? list.first : sequence.previous->next) = sequence.next;
  (sequence.next == nullptr ? list.last : sequence.next->previous) = sequence.previous;
  sequence.previous = sequence.next = nullptr;
  --tenants_[sequence.tenant].waiting;
  --size_;
}

int WaitingQueue::ShortestFirst() const {
  size_t shortest = 0;
  for (const Tenant& tenant : tenants_) {
    for (const List& list : tenant.lists) {
      if (list.first == nullptr) continue;
      const size_t tokens = list.first->tokens.size();
      shortest = shortest == 0 ? tokens : std::min(shortest, tokens);
    }
  }
  return static_cast<int>(shortest);
}

TimePoint WaitingQueue::OldestQueuedAt() const {
  TimePoint oldest = TimePoint::max();
  for (const Tenant& tenant : tenants_) {
    for (const List& list : tenant.lists) {
      if (list.first != nullptr) oldest = std::min(oldest, list.first->queued_at);
    }
  }
  return oldest;
}

WaitingQueue::Scan::Scan(WaitingQueue& queue, TimePoint now, Duration aging)
    : queue_(queue), now_(now), aging_(aging) {
  for (Tenant& tenant : queue_.tenants_) {
    for (List& list : tenant.lists) list.cursor = list.first;
  }
}

Sequence* WaitingQueue::Scan::Next() {
  List* best = nullptr;
  double best_service = 0;
  int best_class = 0;
  for (Tenant& tenant : queue_.tenants_) {
    if (tenant.waiting == 0) continue;
    for (List& list : tenant.lists) {
      const Sequence* s = list.cursor;
      if (s == nullptr) continue;
      const int effective = EffectiveClass(s->request->priority, now_ - s->queued_at, aging_);
      const bool before = best == nullptr || tenant.service < best_service ||
                          (tenant.service == best_service &&
                           (effective < best_class ||
                            (effective == best_class && ArrivedBefore(*s, *best->cursor))));
      if (before) {
        best = &list;
        best_service = tenant.service;
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
