#include "engine/encoder_instance.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/policy/admission.h"

namespace tutti::engine {
namespace {

// Tokens of a batch on a device shared with a decoder, until the cost of a token was measured.
constexpr int kFirstTokens = 128;

// Maximum share of a decoder's step for a batch whose fixed cost is most of its time.
constexpr double kMaxOfStep = 0.45;

std::shared_ptr<AdmissionState> MakeAdmissionState(
    const EncoderOptions& options, const std::atomic<api::LoadLevel>* memory_level) {
  auto admission = std::make_shared<AdmissionState>();
  admission->limits.requests = options.requests;
  admission->limits.bytes = options.bytes;
  admission->limits.age = options.age;
  admission->token_limit = options.tokens;
  admission->item_limit = options.items;
  admission->result_limit = static_cast<int64_t>(options.result_bytes);
  admission->memory_level = memory_level;
  return admission;
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

void EncoderStatistics::Served(int64_t tokens, Duration took) {
  constexpr double kKeep = 15.0 / 16;
  served_ns_ = served_ns_ * kKeep + static_cast<double>(took.count());
  served_tokens_ = served_tokens_ * kKeep + static_cast<double>(tokens);
  admission_->service_ns.store(static_cast<int64_t>(served_ns_ / served_tokens_ * 1024),
                               std::memory_order_relaxed);
}

EncoderStats EncoderStatistics::Snapshot(TimePoint now) const {
  const Figures figures = published_.Load();
  EncoderStats s = figures.stats;
  s.requests = admission_->unfinished.load();
  s.preparing = admission_->preparing.load();
  s.inputs = admission_->items.load();
  s.queued_bytes = admission_->queued_bytes.load();
  s.level = admission_->Level();
  s.result_bytes = admission_->result_bytes.load();
  s.oldest_waiting = figures.oldest_waiting > now ? Duration(0) : now - figures.oldest_waiting;
  s.predicted_wait =
      PredictEncodeWait(admission_->queued_tokens.load(), Duration(admission_->service_ns.load()));
  s.refused = admission_->refused.load();
  return s;
}

EncoderInstance::EncoderInstance(const EncoderOptions& options,
                                 const EncoderDependencies& dependencies,
                                 std::shared_ptr<Signal> signal)
    : ModelInstance(dependencies.clock, std::move(signal),
                    MakeAdmissionState(options, dependencies.memory_level)),
      options_(options),
      deps_(dependencies),
      limits_(dependencies.runner->limits()),
      statistics_(admission_) {
  CHECK(limits_.max_items > 0 && limits_.max_item_tokens > 0 &&
        limits_.max_tokens >= limits_.max_item_tokens && limits_.types > 0 &&
        limits_.width + limits_.token_width + limits_.labels > 0);
  CHECK(options.batch_items > 0 && options.batch_tokens > 0 && options.share > 0 &&
        options.share < 1);
}

EncoderInstance::~EncoderInstance() { ShutDown(); }

// --- between batches ---

Duration EncoderInstance::PredictedWait() const {
  return PredictEncodeWait(admission_->queued_tokens.load(),
                           Duration(admission_->service_ns.load()));
}

void EncoderInstance::Enter(EncodeRequestState& work, TimePoint now) {
  queue_.Join(work);
  const auto items = static_cast<int>(work.items.size());
  returns_.Came(items, work.submitted_at);
  if (work.submitted_at <= last_end_) piled_up_ += items;
  if (api::RequestTrace* const trace = work.request.trace.get()) {
    trace->engine().Append({.at = work.permit.accepted_at(),
                            .took = work.request.prepare,
                            .kind = api::TraceEvent::Kind::kAccepted});
    trace->engine().Append({.at = work.submitted_at,
                            .tokens = static_cast<int32_t>(work.request.tokens.size()),
                            .kind = api::TraceEvent::Kind::kSubmitted});
    trace->engine().Append({.at = work.submitted_at,
                            .kind = api::TraceEvent::Kind::kWaits,
                            .reason = api::WaitReason::kBatchWindow});
  }
  if (work.control->cancelled()) EndRequest(work, Cancelled(), now);
}

bool EncoderInstance::MustStartSoon(const EncodeRequestState& work) const {
  return work.first_batch == TimePoint::max() &&
         work.request.priority == api::Priority::kInteractive;
}

// --- the batch ---

BatchLimits EncoderInstance::LimitsNow() const {
  BatchLimits limits;
  limits.items = std::min(options_.batch_items, limits_.max_items);
  limits.tokens =
      std::min(std::max(options_.batch_tokens, limits_.max_item_tokens), limits_.max_tokens);
  limits.time = options_.batch_time;
  if (contention_.ready && contention_.step.count() > 0) {
    // The batch may take as much time as `share` allows relative to the decoder's step. If the
    // fixed cost would be most of that, it may take more, but less than half of the step, so that a
    // gap between two tokens stays below 1.5 times the gap without the encoder.
    const auto of_step = [&](double part) {
      return Duration(static_cast<int64_t>(static_cast<double>(contention_.step.count()) * part));
    };
    const Duration pause =
        std::max(of_step(weight()), std::min(cost_.fixed() * 2, of_step(kMaxOfStep)));
    limits.time = std::min(limits.time, pause);
  }
  if (contention_.ready && !cost_.known()) {
    limits.tokens = std::min(limits.tokens, std::max(kFirstTokens, limits_.max_item_tokens));
  }
  return limits;
}

TimePoint EncoderInstance::NextStep(TimePoint now) {
  if (!alone_.empty()) return now;
  const BatchShape& waiting = queue_.waiting();
  if (waiting.items == 0) {
    held_ = false;
    return TimePoint::max();
  }
  const BatchLimits limits = LimitsNow();
  DispatchView view;
  view.now = now;
  view.oldest = queue_.OldestQueuedAt();
  view.deadline = next_expiry_;
  view.last_end = last_end_;
  view.items = waiting.items;
  view.fixed = cost_.fixed();
  view.estimate = cost_.Estimate(waiting);
  view.full = waiting.items >= limits.items || waiting.tokens >= limits.tokens ||
              view.estimate >= limits.time;
  view.piled_up = piled_up_;
  view.expected = returns_.expected();
  view.busy = busy_.share(now);
  view.window = options_.window;
  const TimePoint at = HoldUntil(view);
  held_ = held_ || at > now;
  return at;
}

bool EncoderInstance::Choose(BatchEvent& event) {
  // Retries of failed batches' items alternate with new batches, so that requests that make batches
  // fail do not delay all others until every item was retried.
  event.retry = !alone_.empty() && (alone_next_ || queue_.waiting().items == 0);
  if (!event.retry && queue_.waiting().items == 0) return false;
  alone_next_ = !event.retry;
  if (event.retry) {
    chosen_.assign(1, alone_.first);
    alone_.Remove(*chosen_[0]);
    chosen_[0]->state = ItemState::kRunning;
    return true;
  }
  const PickedBatch batch =
      queue_.Pick(LimitsNow(), cost_, options_.max_passed, options_.bulk_share,
                  options_.priority_aging, event.begin, chosen_);
  const bool held = std::exchange(held_, false);
  if (batch.full) {
    event.reason = batch.aged ? DispatchReason::kAge : DispatchReason::kFull;
  } else {
    event.reason = held ? DispatchReason::kDeadline : DispatchReason::kIdle;
  }
  return true;
}

void EncoderInstance::Assemble(BatchEvent& event) {
  shape_ = BatchShape();
  items_.clear();
  tokens_.clear();
  types_.clear();
  offsets_.assign(1, 0);
  bool typed = false;
  for (const WorkItem* item : chosen_) typed |= !item->work->request.types.empty();
  for (WorkItem* item : chosen_) {
    EncodeRequestState& work = *item->work;
    const TokenizedRequest& request = work.request;
    items_.push_back(
        {static_cast<int>(tokens_.size()), item->tokens, request.output, work.Out(*item)});
    const auto first = request.tokens.begin() + item->first;
    tokens_.insert(tokens_.end(), first, first + item->tokens);
    if (!request.types.empty()) {
      const auto type = request.types.begin() + item->first;
      types_.insert(types_.end(), type, type + item->tokens);
    } else if (typed) {
      types_.insert(types_.end(), static_cast<size_t>(item->tokens), 0);
    }
    offsets_.push_back(static_cast<int32_t>(tokens_.size()));
    shape_.Add(item->tokens);
    event.longest = std::max(event.longest, item->tokens);
    event.oldest_passed = std::max(event.oldest_passed, item->passed);
    if (api::RequestTrace* const trace = work.request.trace.get()) {
      if (work.first_batch == TimePoint::max()) {
        trace->Waited(api::WaitReason::kBatchWindow, event.begin - work.submitted_at);
        trace->engine().Append(
            {.at = event.begin, .step = batches_ + 1, .kind = api::TraceEvent::Kind::kRuns});
      }
      trace->InStep(batches_ + 1);
    }
    work.first_batch = std::min(work.first_batch, event.begin);
    if (!event.retry) work.permit.Served(item->tokens);
  }
  event.items = shape_.items;
  event.tokens = static_cast<int>(shape_.tokens);
  event.expected = cost_.Estimate(shape_);
}

// One forward pass. The time at its end.
TimePoint EncoderInstance::Run(BatchEvent& event) {
  EncodeBatch batch;
  batch.number = event.batch = ++batches_;
  batch.tokens = tokens_;
  batch.types = types_;
  batch.items = items_;
  batch.offsets = offsets_;
  const TimePoint launched = clock_.Now();
  deps_.runner->Launch(batch);
  event.status = deps_.runner->Collect();
  const TimePoint now = clock_.Now();
  event.forward = now - launched;
  return now;
}

// Updates cost model and counters with a finished batch.
void EncoderInstance::Account(const BatchEvent& event, TimePoint now) {
  if (event.status.ok()) cost_.Observe(shape_, event.forward);
  busy_.Ran(event.begin, now);
  returns_.Ended(now, shape_.items, LongestHold(options_.window, cost_.fixed()));
  pulse_.StepTook(now - event.begin);
  statistics_.Served(shape_.tokens, now - (backlog_ ? last_end_ : event.begin));
  EncoderStats& count = statistics_.count();
  ++count.batches;
  count.items += static_cast<uint64_t>(event.items);
  count.tokens += static_cast<uint64_t>(event.tokens);
  count.padded_tokens += static_cast<uint64_t>(event.items) * static_cast<uint64_t>(event.longest);
  count.longest_passed = std::max(count.longest_passed, event.oldest_passed);
  count.busy += event.forward;
  if (event.retry) ++count.retried_items;
  if (!event.retry) ++count.reasons[static_cast<size_t>(event.reason)];
  if (!event.status.ok()) ++count.failed_batches;
  last_end_ = now;
  backlog_ = queue_.waiting().items > 0;
  piled_up_ = queue_.waiting().items;
}

bool EncoderInstance::Step() {
  BatchEvent event;
  event.begin = clock_.Now();
  if (!Choose(event)) return false;
  Assemble(event);
  const TimePoint now = Run(event);
  Account(event, now);
  for (WorkItem* item : chosen_) {
    item->work->computed_tokens += item->tokens;
    if (item->work->ended) continue;  // through another item of this batch
    if (event.status.ok()) {
      Deliver(*item, now);
    } else if (chosen_.size() == 1) {
      FailItem(*item, event.status, now);
    } else {
      item->state = ItemState::kAlone;
      alone_.PushBack(*item);
    }
  }
  wakers_.WakeAll();
  event.end = clock_.Now();
  const TimePoint launched = now - event.forward;
  steps_.Add({.step = event.batch,
              .begin = event.begin,
              .plan = launched - event.begin,
              .launch = event.forward,
              .commit = event.end - now,
              .forward = event.forward,
              .prefill_rows = event.items,
              .prefill_tokens = event.tokens,
              .failed = !event.status.ok()});
  if (deps_.observer != nullptr) deps_.observer->OnBatch(event);
  FinishRound();
  Publish(now);
  return true;
}

void EncoderInstance::Deliver(WorkItem& item, TimePoint now) {
  EncodeRequestState& work = *item.work;
  // A NaN or infinity makes the whole vector useless, and JSON cannot represent it.
  if (!AllFinite(work.Out(item))) {
    return FailItem(item,
                    Status(StatusCode::kInternal, "output_not_finite",
                           "the model gave a value that is not finite"),
                    now);
  }
  item.state = ItemState::kDone;
  if (--work.left == 0) EndRequest(work, OkStatus(), now);
}

void EncoderInstance::FailItem(WorkItem& item, const Status& status, TimePoint now) {
  ++statistics_.count().failed_items;
  Status why = status;
  EndRequest(*item.work, std::move(why).WithContext("input " + std::to_string(item.index)), now);
}

// The one place where a request ends.
void EncoderInstance::EndRequest(EncodeRequestState& work, Status status, TimePoint now) {
  CHECK(!work.ended);
  work.ended = true;
  for (WorkItem& item : work.items) {
    if (item.state == ItemState::kAlone) alone_.Remove(item);
    if (item.state == ItemState::kAlone) item.state = ItemState::kDone;
  }
  queue_.Leave(work);
  EncoderStats& count = statistics_.count();
  ++count.finished;
  if (!status.ok()) count.wasted_tokens += static_cast<uint64_t>(work.computed_tokens);

  api::EncodeTimings& timings = work.result.timings;
  timings.prepare = work.request.prepare;
  timings.queue = std::min(work.first_batch, now) - work.submitted_at;
  if (work.first_batch != TimePoint::max()) timings.inference = now - work.first_batch;

  if (deps_.observer != nullptr) {
    EncodingEvent event;
    event.id = work.request.id;
    event.tenant = work.request.tenant;
    event.priority = work.request.priority;
    event.status = status;
    event.items = static_cast<int>(work.items.size());
    event.tokens = static_cast<int64_t>(work.request.tokens.size());
    event.wasted_tokens = status.ok() ? 0 : work.computed_tokens;
    event.timings = timings;
    deps_.observer->OnFinished(event);
  }
  if (api::RequestTrace* const trace = work.request.trace.get()) {
    trace->SetEnd(status.ok() ? "ok" : status.reason());
    trace->engine().Append({.at = now, .step = batches_, .kind = api::TraceEvent::Kind::kEnded},
                           /*essential=*/true);
  }
  wakers_.Add(work.state->waker().get());
  if (status.ok()) {
    work.state->Finish(std::move(work.result));
  } else {
    work.state->Finish(std::move(status));
  }
  Retire(work);
}

void EncoderInstance::TakeLive(TimePoint now) {
  using RowPhase = api::LiveSequence::Phase;
  live_.Take(now, [&](api::LiveEngine& out) {
    out.encoder = true;
    for (const auto& work : works()) {
      const bool runs = work->first_batch != TimePoint::max();
      ++(runs ? out.running : out.waiting);
      if (!runs) ++out.reasons[static_cast<size_t>(api::WaitReason::kBatchWindow)];
      if (out.sequences.size() == api::LiveEngine::kMaxRows) continue;
      api::LiveSequence& row = out.sequences.emplace_back();
      const api::RequestTrace* const trace = work->request.trace.get();
      row.request.Set(trace == nullptr ? work->request.id : trace->head().id);
      row.tenant.Set(work->request.tenant);
      if (trace != nullptr) row.caller.Set(trace->head().caller);
      row.phase = runs ? RowPhase::kPrefill : RowPhase::kWaiting;
      row.waits_for = runs ? api::WaitReason::kNone : api::WaitReason::kBatchWindow;
      row.priority = work->request.priority;
      row.prompt_tokens = static_cast<int>(work->request.tokens.size());
      row.computed_tokens = static_cast<int>(work->computed_tokens);
      row.items = static_cast<int>(work->items.size());
      row.items_left = work->left;
      row.age = now - work->permit.accepted_at();
      row.waited = runs ? Duration(0) : now - work->submitted_at;
    }
    // The order of the queue is known in part only; that of their arrival is what people look for.
    std::sort(out.sequences.begin(), out.sequences.end(), [](const auto& a, const auto& b) {
      return std::pair(a.phase == RowPhase::kWaiting, b.age) <
             std::pair(b.phase == RowPhase::kWaiting, a.age);
    });
    out.left_out = static_cast<int>(works().size() - out.sequences.size());
    out.waiting_tokens = queue_.waiting().tokens;
    out.preparing = admission_->preparing.load();
    steps_.CopyTo(&out, now);
  });
}

void EncoderInstance::PublishStatistics() {
  EncoderStats& count = statistics_.count();
  count.waiting_items = queue_.waiting().items;
  count.waiting_tokens = queue_.waiting().tokens;
  count.passed_over = queue_.passed_over();
  statistics_.Publish(queue_.OldestQueuedAt());
}

}  // namespace tutti::engine
