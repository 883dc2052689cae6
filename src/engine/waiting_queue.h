// WaitingQueue: the sequences that wait to run, in a list for each tenant and priority class,
// in order of arrival. Owns no sequences: it links them. Owned by a Scheduler; engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/sequence.h"
#include "engine/tenant_shares.h"

namespace tutti::engine {

class WaitingQueue {
 public:
  // Called once for each live sequence, before any other call about it. `weight` > 0.
  uint32_t JoinTenant(const std::string& name, double weight);
  void LeaveTenant(uint32_t tenant);
  void Charge(uint32_t tenant, double service) { shares_.Charge(tenant, service); }
  double service(uint32_t tenant) const { return shares_.service(tenant); }

  // Adds a sequence. If no other sequence of its tenant waits, the tenant did not use all of its
  // share: its service is raised to the least of the waiting tenants, so that it comes back without
  // a burst (as in VTC, policy/order.h).
  void Insert(Sequence& sequence);
  void Remove(Sequence& sequence);
  int size() const { return size_; }
  // Tokens of the shortest sequence at the head of a list, as far as the next step could compute
  // them: a sequence that did not fit counts as the smallest chunk, and one that waits for a leader
  // not at all. 0 when none waits.
  int ShortestFirst() const;
  // When the first of those waiting was queued; max() when none waits.
  TimePoint OldestQueuedAt() const;

  // Visits the waiting sequences in the order of policy/order.h. The sequence returned last may be
  // removed.
  class Scan {
   public:
    Scan(WaitingQueue& queue, TimePoint now, Duration aging);
    Sequence* Next();  // nullptr when all were visited

   private:
    WaitingQueue& queue_;
    const TimePoint now_;
    const Duration aging_;
  };

 private:
  static constexpr size_t kClasses = 3;
  struct List {
    Sequence* first = nullptr;
    Sequence* last = nullptr;
    Sequence* cursor = nullptr;  // of the scan in progress
  };
  struct Lists {  // of one tenant
    int waiting = 0;
    std::array<List, kClasses> by_class;
  };
  List& ListOf(Sequence& sequence);
  void LiftToThoseWaiting(uint32_t tenant);

  TenantShares shares_;
  std::vector<Lists> lists_;  // by tenant
  int size_ = 0;
};

}  // namespace tutti::engine
