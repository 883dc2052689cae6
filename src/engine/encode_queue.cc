#include "engine/encode_queue.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "engine/policy/order.h"

namespace tutti::engine {
void ItemList::PushBack(WorkItem& item) {
  item.previous = last;
  item.next = nullptr;
  (last == nullptr ? first : last->next) = &item;
  last = &item;
}

void ItemList::Remove(WorkItem& item) {
  (item.previous == nullptr ? first : item.previous->next) = item.next;
  (item.next == nullptr ? last : item.next->previous) = item.previous;
  item.previous = item.next = nullptr;
}

std::span<float> EncodeRequestState::Out(const WorkItem& item) {
  const bool by_token = request.output == api::EncodeOutput::kTokens;
  const auto width = static_cast<size_t>(result.width);
  const auto row = static_cast<size_t>(by_token ? item.first : item.index);
  const auto rows = static_cast<size_t>(by_token ? item.tokens : 1);
  return std::span(result.values).subspan(row * width, rows * width);
}

bool IsSmall(const TokenizedRequest& request, const EncoderOptions& options) {
  return request.priority == api::Priority::kInteractive &&
         request.lengths.size() <= static_cast<size_t>(options.small_items) &&
         request.tokens.size() <= static_cast<size_t>(options.batch_tokens);
}

int64_t ResultFloats(const TokenizedRequest& request, const EncoderLimits& limits) {
  const size_t rows =
      request.output == api::EncodeOutput::kTokens ? request.tokens.size() : request.lengths.size();
  return static_cast<int64_t>(rows) * limits.of(request.output);
}

std::unique_ptr<EncodeRequestState> MakeEncodeRequestState(
    AdmissionPermit permit, TokenizedRequest request, std::shared_ptr<api::EncodingState> state,
    const EncoderLimits& limits, bool small, TimePoint now) {
  auto work = std::make_unique<EncodeRequestState>();
  work->result.width = limits.of(request.output);
  work->result.values.resize(static_cast<size_t>(ResultFloats(request, limits)));
  work->result.tokens = request.lengths;
  if (request.output == api::EncodeOutput::kTokens) work->result.rows = request.lengths;
  work->items.resize(request.lengths.size());
  int first = 0;
  for (size_t i = 0; i < request.lengths.size(); ++i) {
    WorkItem& item = work->items[i];
    item.work = work.get();
    item.index = static_cast<int>(i);
    item.first = first;
    item.tokens = request.lengths[i];
    first += item.tokens;
  }
  work->left = static_cast<int>(work->items.size());
  work->control = permit.control();
  work->permit = std::move(permit);
  work->request = std::move(request);
  work->state = std::move(state);
  work->small = small;
  work->submitted_at = now;
  return work;
}

ItemFlow& EncodeQueue::FlowOf(EncodeRequestState& work) {
  return work.small ? *single_flows_[work.flow.tenant] : work.flow;
}

void EncodeQueue::Open(Line& line, ItemFlow& flow) {
  flow.index = line.flows.size();
  line.flows.push_back(&flow);
}

void EncodeQueue::Close(Line& line, ItemFlow& flow) {
  line.flows[flow.index] = line.flows.back();
  line.flows[flow.index]->index = flow.index;
  line.flows.pop_back();
}

void EncodeQueue::Join(EncodeRequestState& work) {
  const uint32_t tenant = work.flow.tenant =
      shares_.Join(work.request.tenant, work.request.tenant_weight);
  while (single_flows_.size() < shares_.size()) {
    single_flows_.push_back(std::make_unique<ItemFlow>());
    single_flows_.back()->tenant = static_cast<uint32_t>(single_flows_.size() - 1);
  }
  Line& line = LineOf(work);
  ItemFlow& flow = FlowOf(work);
  if (flow.items.empty()) {
    flow.priority = work.request.priority;
    flow.queued_at = work.submitted_at;
    flow.arrival = ++arrivals_;
    double least = 0;
    bool any = false;
    for (const ItemFlow* other : line.flows) {
      if (other->tenant != tenant || (any && other->service >= least)) continue;
      least = other->service;
      any = true;
    }
    flow.service = least;
    Open(line, flow);
  }
  for (WorkItem& item : work.items) {
    flow.items.PushBack(item);
    waiting_.Add(item.tokens);
  }
}

void EncodeQueue::Leave(EncodeRequestState& work) {
  for (WorkItem& item : work.items) {
    if (item.state == ItemState::kWaiting) {
      TakeOut(item);
      item.state = ItemState::kDone;
    }
  }
  shares_.Leave(work.flow.tenant);
}

void EncodeQueue::TakeOut(WorkItem& item) {
  ItemFlow& flow = FlowOf(*item.work);
  flow.items.Remove(item);
  --waiting_.items;
  waiting_.tokens -= item.tokens;
  waiting_.squares -= int64_t{item.tokens} * item.tokens;
  if (flow.items.empty()) {
    Close(LineOf(*item.work), flow);
  } else if (item.work->small) {
    const WorkItem& head = *flow.items.first;
    flow.queued_at = head.work->submitted_at;
  }
}

TimePoint EncodeQueue::OldestQueuedAt() const {
  TimePoint oldest = TimePoint::max();
  for (const Line* line : {&singles_, &bulk_}) {
    for (const ItemFlow* flow : line->flows) oldest = std::min(oldest, flow->queued_at);
  }
  return oldest;
}

void EncodeQueue::Walk(Line& line, size_t window, Duration aging, TimePoint now) {
  line.turn.clear();
  line.candidates.clear();
  const auto key = [&](const ItemFlow& flow) {
    return std::tuple(walked_[flow.tenant],
                      EffectiveClass(flow.priority, now - flow.queued_at, aging), flow.walked,
                      flow.arrival);
  };
  walked_.resize(shares_.size());
  for (uint32_t t = 0; t < shares_.size(); ++t) walked_[t] = shares_.service(t);
  for (ItemFlow* flow : line.flows) {
    flow->cursor = flow->items.first;
    flow->walked = flow->service;
  }
  // More flows than the window has room for: those whose turn is first.
  size_t count = line.flows.size();
  const auto before = [&](const ItemFlow* a, const ItemFlow* b) { return key(*a) < key(*b); };
  if (count > window) {
    std::nth_element(line.flows.begin(), line.flows.begin() + static_cast<std::ptrdiff_t>(window),
                     line.flows.end(), before);
    for (size_t i = 0; i < line.flows.size(); ++i) line.flows[i]->index = i;
    count = window;
  }
  while (line.turn.size() < window) {
    ItemFlow* best = nullptr;
    for (size_t i = 0; i < count; ++i) {
      ItemFlow* flow = line.flows[i];
      if (flow->cursor != nullptr && (best == nullptr || before(flow, best))) best = flow;
    }
    if (best == nullptr) return;
    WorkItem& item = *best->cursor;
    line.turn.push_back(&item);
    line.candidates.push_back({item.tokens, item.passed, false});
    best->cursor = item.next;
    best->walked += item.tokens;
    walked_[best->tenant] += shares_.ForWeight(best->tenant, item.tokens);
  }
}

void EncodeQueue::Gather(Line& line, std::vector<WorkItem*>& picked) {
  for (size_t i = 0; i < line.turn.size(); ++i) {
    WorkItem& item = *line.turn[i];
    passed_over_ += static_cast<uint64_t>(line.candidates[i].passed - item.passed);
    item.passed = line.candidates[i].passed;
    if (!line.candidates[i].picked) continue;
    picked.push_back(&item);
    FlowOf(*item.work).service += item.tokens;
    shares_.Charge(item.work->flow.tenant, item.tokens);
    TakeOut(item);
    item.state = ItemState::kRunning;
  }
}

PickedBatch EncodeQueue::Pick(const BatchLimits& limits, const BatchCost& cost, int max_passed,
                              double bulk_share, Duration aging, TimePoint now,
                              std::vector<WorkItem*>& picked) {
  const auto window = static_cast<size_t>(limits.items) * kWindow;
  Walk(singles_, window, aging, now);
  Walk(bulk_, window, aging, now);
  bulk_saved_ = bulk_.turn.empty() ? 0 : std::min(bulk_saved_ + bulk_share, 1.0);
  PickInputs in;
  in.limits = limits;
  in.max_passed = max_passed;
  in.bulk_claim = bulk_saved_;
  in.cost = &cost;
  PickedBatch batch = PickBatch(in, singles_.candidates, bulk_.candidates, scratch_);
  bulk_saved_ = std::max(bulk_saved_ - batch.bulk_part, 0.0);
  picked.clear();
  Gather(singles_, picked);
  Gather(bulk_, picked);
  batch.full = waiting_.items > 0;
  return batch;
}

}  // namespace tutti::engine
