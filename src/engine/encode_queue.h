// EncodeQueue: the items that wait for a batch of one encoder, in two lines: items of small
// interactive requests, and bulk items (policy/pick_batch.h). The order in each line: fair share
// between tenants, then priority with aging, then fair share between a tenant's requests, then
// arrival. Owns no items: it links them in lists. Member of EncoderInstance; engine thread; no I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/encode_request_state.h"
#include "engine/policy/batch_cost.h"
#include "engine/policy/pick_batch.h"
#include "engine/tenant_shares.h"

namespace tutti::engine {

class EncodeQueue {
 public:
  // Adds all items of a request.
  void Join(EncodeRequestState& work);
  // Removes the items that still wait. Must be called for every request that joined before the
  // request is destroyed.
  void Leave(EncodeRequestState& work);

  // Moves the items of the next batch from their lines to `picked` and charges their tenants.
  PickedBatch Pick(const BatchLimits& limits, const BatchCost& cost, int max_passed,
                   double bulk_share, Duration aging, TimePoint now,
                   std::vector<WorkItem*>& picked);

  const BatchShape& waiting() const { return waiting_; }  // of all items in line
  TimePoint OldestQueuedAt() const;                       // max() when none waits
  uint64_t passed_over() const { return passed_over_; }   // times that an item was

 private:
  // Candidates of a batch: this many times the items that fit into one.
  static constexpr int kWindow = 4;

  struct Line {
    std::vector<ItemFlow*> flows;       // those with items
    std::vector<WorkItem*> turn;        // the window of the walk in progress
    std::vector<Candidate> candidates;  // parallel
  };
  void Open(Line& line, ItemFlow& flow);
  void Close(Line& line, ItemFlow& flow);
  void TakeOut(WorkItem& item);
  void Walk(Line& line, size_t window, Duration aging, TimePoint now);
  void Gather(Line& line, std::vector<WorkItem*>& picked);
  Line& LineOf(const EncodeRequestState& work) { return work.small ? singles_ : bulk_; }
  ItemFlow& FlowOf(EncodeRequestState& work);

  TenantShares shares_;
  std::vector<std::unique_ptr<ItemFlow>> single_flows_;  // by tenant
  Line singles_, bulk_;
  BatchShape waiting_;
  double bulk_saved_ = 0;  // part of a batch that bulk items are sure of and did not take yet
  uint64_t arrivals_ = 0, passed_over_ = 0;
  std::vector<double> walked_;  // service of tenants in the walk in progress
  std::vector<int> scratch_;
};

}  // namespace tutti::engine
