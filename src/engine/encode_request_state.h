// EncodeRequestState: state of one request to an encoder, with its items.
//
// Created by the submitting thread, with all the memory that the request will ever need. Once the
// mailbox has it, the EncoderInstance owns it and only the engine thread uses it.
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
#include "engine/request.h"
#include "engine/tokenized_request.h"

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

}  // namespace tutti::engine
