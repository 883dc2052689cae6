// EncodeRequestState: state of one request to an encoder, with its items; EncodeQueue: the items
// that wait for a batch of the encoder, and their order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "api/encoding.h"
#include "base/clock.h"
#include "engine/encoder_runner.h"
#include "engine/mailbox.h"
#include "engine/options.h"
#include "engine/policy/pick_batch.h"
#include "engine/request.h"
#include "engine/tenant_shares.h"

namespace tutti::engine {

struct EncodeRequestState;

enum class ItemState : uint8_t {
  kWaiting,  // in its line
  kRunning,  // in the batch
  kAlone,    // its batch failed; it waits to be run by itself
  kDone,
};

// One input.
struct WorkItem {
  EncodeRequestState* work = nullptr;
  int index = 0;  // in the request
  int first = 0;  // of its tokens, in the request's
  int tokens = 0;
  int passed = 0;  // Candidate::passed
  ItemState state = ItemState::kWaiting;
  WorkItem* previous = nullptr;  // of the list that holds it
  WorkItem* next = nullptr;
};

// Intrusive doubly linked list of items. Owns none.
struct ItemList {
  WorkItem* first = nullptr;
  WorkItem* last = nullptr;
  bool empty() const { return first == nullptr; }
  void PushBack(WorkItem& item);
  void Remove(WorkItem& item);
};

// Items that are served in order of arrival: those of a tenant's small requests, or those of one
// bulk request.
struct ItemFlow {
  ItemList items;
  uint32_t tenant = 0;
  api::Priority priority = api::Priority::kInteractive;
  TimePoint queued_at{};
  uint64_t arrival = 0;
  double service = 0;  // tokens served, raised to its tenant's minimum when it arrived
  size_t index = 0;    // in the queue's list
  // State of the walk in progress.
  WorkItem* cursor = nullptr;
  double walked = 0;
};

// Created by the submitting thread, with all the memory that the request will ever need. Once the
// mailbox has it, the EncoderInstance owns it and only the engine thread uses it.
struct EncodeRequestState final : Submission {
  TokenizedRequest request;
  std::shared_ptr<api::EncodingState> state;
  std::shared_ptr<RequestControl> control;
  AdmissionPermit permit;
  api::EncodeResult result;  // values written in place, by item
  std::vector<WorkItem> items;
  ItemFlow flow;       // of its items, when it is a bulk request
  bool small = false;  // its items stand in their tenant's line of singles
  TimePoint submitted_at{};

  // Progress.
  size_t index = 0;  // in the slot's list
  int left = 0;      // items without a result
  TimePoint first_batch = TimePoint::max();
  int64_t computed_tokens = 0;
  bool ended = false;

  // The part of `result` that the item's floats are written to.
  std::span<float> Out(const WorkItem& item);
};

// Whether the request's items go ahead of others: it is interactive, has few items, and fits into
// one batch.
bool IsSmall(const TokenizedRequest& request, const EncoderOptions& options);

// Number of floats in the result of `request`.
int64_t ResultFloats(const TokenizedRequest& request, const EncoderLimits& limits);

// Called on the submitting thread. `request` was already checked against the limits.
std::unique_ptr<EncodeRequestState> MakeEncodeRequestState(
    AdmissionPermit permit, TokenizedRequest request, std::shared_ptr<api::EncodingState> state,
    const EncoderLimits& limits, bool small, TimePoint now);

// The items wait in two lines: items of small interactive requests, and bulk items
// (policy/pick_batch.h). The order in each line: fair share between tenants, then priority with
// aging, then fair share between a tenant's requests, then arrival. Owns no items: it links them in
// lists. Member of EncoderInstance; engine thread; no I/O.
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
