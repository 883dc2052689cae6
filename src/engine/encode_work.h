// EncodeWork: the record of one request to an encoder, with its items.
//
// Made by the thread that submits, together with all the memory the request will ever need; from
// the mailbox on it is the slot's, on the engine thread.
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

struct EncodeWork;

enum class ItemState : uint8_t {
  kWaiting,  // in its line
  kRunning,  // in the batch
  kAlone,    // its batch failed; it waits to be run by itself
  kDone,
};

// One input.
struct WorkItem {
  EncodeWork* work = nullptr;
  int index = 0;  // in the request
  int first = 0;  // of its tokens, in the request's
  int tokens = 0;
  int passed = 0;  // Candidate::passed
  ItemState state = ItemState::kWaiting;
  WorkItem* previous = nullptr;  // of the list that holds it
  WorkItem* next = nullptr;
};

// Items in order, linked through themselves. Owns nothing.
struct ItemList {
  WorkItem* first = nullptr;
  WorkItem* last = nullptr;
  bool empty() const { return first == nullptr; }
  void PushBack(WorkItem& item);
  void Remove(WorkItem& item);
};

// Items that stand in line behind each other: of a tenant's small requests, or of one bulk request.
struct ItemFlow {
  ItemList items;
  uint32_t tenant = 0;
  api::Priority priority = api::Priority::kInteractive;
  TimePoint queued_at{};
  uint64_t arrival = 0;
  double service = 0;  // tokens it had, lifted to the least of its tenant's when it came
  size_t index = 0;    // in the queue's list
  // Of the walk in progress.
  WorkItem* cursor = nullptr;
  double walked = 0;
};

struct EncodeWork final : Submission {
  TokenizedRequest request;
  std::shared_ptr<api::EncodingState> state;
  std::shared_ptr<RequestControl> control;
  Ticket ticket;
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

  // Where the item's floats go.
  std::span<float> Out(const WorkItem& item);
};

// Whether its items go ahead of others: few, urgent, and of one batch.
bool IsSmall(const TokenizedRequest& request, const EncoderOptions& options);

// Floats of a result.
int64_t ResultFloats(const TokenizedRequest& request, const EncoderLimits& limits);

// The caller's thread. `request` was checked against the limits.
std::unique_ptr<EncodeWork> MakeEncodeWork(Ticket ticket, TokenizedRequest request,
                                           std::shared_ptr<api::EncodingState> state,
                                           const EncoderLimits& limits, bool small, TimePoint now);

}  // namespace tutti::engine
