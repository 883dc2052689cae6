#include "engine/decoder_instance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "base/check.h"
#include "engine/policy/admission.h"
#include "engine/policy/prefix_cause.h"
#include "engine/policy/window.h"

namespace tutti::engine {
namespace {

// Period of checking readers that are behind, since they do not notify the engine when they catch
// up.
constexpr Duration kReaderCheck = std::chrono::milliseconds(5);

// Period of noting why sequences wait, which walks the queue.
constexpr Duration kQueueNote = std::chrono::milliseconds(100);

// How long the end of an engine waits for prefixes to be saved.
constexpr Duration kFlushAtEnd = std::chrono::seconds(5);

std::unique_ptr<PrefixTransfer> MakeTransfer(const EngineOptions& options,
                                             const EngineDependencies& deps, kv::KvBlockPool* pool,
                                             const RunnerLimits& limits) {
  if (deps.prefixes == nullptr || !options.scheduler.prefix_cache) return nullptr;
  return std::make_unique<PrefixTransfer>(deps.prefixes, deps.runner, pool, limits.window,
                                          options.scheduler.load_patience);
}

PinnedPrefixes::Limits PinLimits(const EngineOptions& options, const RunnerLimits& limits,
                                 int max_model_len) {
  const int context = BlocksFor(max_model_len);
  const int rows = MaxPromptRows(options.scheduler, limits.max_step_tokens);
  PinnedPrefixes::Limits out;
  if (!options.scheduler.prefix_cache) return out;
  out.blocks = MaxPinnedBlocks(limits.kv_blocks, context);
  // With as many as blocks, each active one belongs to an active block (SequenceMemory).
  out.window_blocks = limits.window_blocks >= limits.kv_blocks
                          ? limits.window_blocks
                          : limits.window_blocks - MaxWindowBlocks(limits.window, rows, context);
  out.states = limits.state_slots - MaxNumSeqs(options.scheduler) - 1;
  out.window = limits.window;
  return out;
}

kv::PrefixOptions RandomlyKeyed(int hash_bits) {
  std::random_device device;
  const auto word = [&] { return (uint64_t{device()} << 32) | device(); };
  kv::PrefixOptions options;
  options.key = {word(), word()};
  options.hash_bits = hash_bits;
  return options;
}

std::shared_ptr<AdmissionState> MakeAdmissionState(
    const EngineOptions& options, const RunnerLimits& limits,
    const std::atomic<api::LoadLevel>* memory_level) {
  auto admission = std::make_shared<AdmissionState>();
  admission->limits = options.queue;
  admission->max_num_seqs = MaxNumSeqs(options.scheduler);
  admission->token_limit =
      static_cast<int64_t>(options.queue.prompt_tokens_per_kv_token *
                           static_cast<double>(limits.kv_blocks) * kBlockTokens);
  admission->memory_level = memory_level;
  return admission;
}

// Expected cost of a draft model's pass as a multiple of a step of the model: the ratio of their
// weights, since both are dominated by reading all weights.
double DraftPass(const RunnerLimits& limits, const ModelRunner* draft) {
  if (draft == nullptr || limits.weight_bytes == 0) return 0;
  return static_cast<double>(draft->limits().weight_bytes) /
         static_cast<double>(limits.weight_bytes);
}

SchedulerOptions WithFollowAge(const EngineOptions& options) {
  SchedulerOptions out = options.scheduler;
  out.follow_age = options.queue.age / 2;
  return out;
}

}  // namespace

DecoderInstance::DecoderInstance(const EngineOptions& options,
                                 const EngineDependencies& dependencies,
                                 std::shared_ptr<Signal> signal)
    : ModelInstance(
          dependencies.clock, signal,
          MakeAdmissionState(options, dependencies.runner->limits(), dependencies.memory_level)),
      options_(options),
      deps_(dependencies),
      limits_(dependencies.runner->limits()),
      max_model_len_(std::min(limits_.context, limits_.kv_blocks * kBlockTokens)),
      pool_(limits_.kv_blocks, RandomlyKeyed(options.prefix_hash_bits), limits_.state_slots,
            limits_.window_blocks),
      transfer_(MakeTransfer(options, dependencies, &pool_, limits_)),
      pins_(&pool_, PinLimits(options, limits_, max_model_len_),
            transfer_ ? dependencies.prefixes : nullptr, [signal] { signal->Notify(); }),
      scheduler_(WithFollowAge(options), limits_, &pool_, DraftPass(limits_, dependencies.draft),
                 transfer_.get()),
      statistics_(admission_, limits_.kv_blocks),
      waiting_view_(api::LiveEngine::kMaxRows),
      block_view_(static_cast<size_t>(limits_.kv_blocks)) {
  deps_.runner->SetAbortFlag(&mailbox_->urgent());
  if (deps_.draft != nullptr && options.scheduler.speculate) drafter_.emplace(deps_.draft);
  if (transfer_) deps_.prefixes->OnProgress([signal] { signal->Notify(); });
  CHECK(limits_.max_step_tokens > 0 && limits_.max_step_slices > 0 && limits_.kv_blocks > 0 &&
        limits_.context > 0 && limits_.kv_blocks < INT32_MAX / kBlockTokens);
  // Else a long sequence would wait for ever (Scheduler::WindowBlocksFit). None has more blocks
  // than the longest context.
  const int rows = MaxPromptRows(options.scheduler, limits_.max_step_tokens);
  const int most = MaxWindowBlocks(limits_.window, rows, BlocksFor(max_model_len_));
  CHECK(limits_.window_blocks == 0 || limits_.window_blocks >= std::min(limits_.kv_blocks, most))
      << limits_.window_blocks << " blocks of windows";
}

DecoderInstance::~DecoderInstance() {
  deps_.runner->SetAbortFlag(nullptr);
  ShutDown();
  if (!transfer_) return;
  deps_.prefixes->OnProgress(nullptr);
  transfer_->Flush(kFlushAtEnd);
}

// --- between steps ---

Duration DecoderInstance::PredictedWait() const {
  return PredictWait(admission_->places.load(), admission_->max_num_seqs,
                     Duration(admission_->service_ns.load()));
}

void DecoderInstance::Enter(RequestState& work, TimePoint now) {
  live_choices_ += work.live_choices;
  const uint64_t arrival = ++arrivals_;
  const bool wait_for_grant = work.request.stepwise && work.control->granted() <= 0;
  if (api::RequestTrace* const trace = work.request.trace.get()) {
    trace->engine().Append({.at = work.permit.accepted_at(),
                            .took = work.request.prepare,
                            .kind = api::TraceEvent::Kind::kAccepted});
    trace->engine().Append({.at = now,
                            .tokens = static_cast<int32_t>(work.request.prompt.size()),
                            .kind = api::TraceEvent::Kind::kSubmitted});
  }
  for (const auto& choice : work.choices) {
    Sequence& s = choice->sequence;
    if (free_ids_.empty()) {
      s.id = static_cast<uint32_t>(by_sequence_.size());
      by_sequence_.push_back(&work);
    } else {
      s.id = free_ids_.back();
      free_ids_.pop_back();
      by_sequence_[s.id] = &work;
    }
    s.arrival = arrival;
    s.queued_at = work.permit.accepted_at();
    scheduler_.Add(s, wait_for_grant);
    NoteWait(s, wait_for_grant ? api::WaitReason::kGrant : api::WaitReason::kNextStep, now);
    choice->pause = wait_for_grant ? kPausedForGrant : 0;
    scheduler_.ReadAhead(s, now);
  }
  api::StreamEvent started;
  started.kind = api::StreamEvent::Kind::kStarted;
  started.usage = work.usage;
  work.stream->Append(std::move(started));
  wakers_.Add(work.stream->waker().get());
  if (work.control->cancelled()) return EndRequest(work, Cancelled(), now);
  // The first prompt token has no log-probability; where it is the only one, or none are asked for,
  // there is nothing to compute for the prompt.
  const bool unscored = work.request.sampling.prompt_logprobs < 0;
  if (work.request.prompt.size() == 1 && !unscored) DeliverPromptLogprobs(work, Outcome());
  if (!work.request.score_only) return;
  // Choice 0 scores or pins for all.
  const size_t computing =
      work.request.prompt.size() == 1 || (unscored && !work.request.pin) ? 0 : 1;
  for (size_t i = work.choices.size(); i > computing; --i) {
    EndChoice(work, *work.choices[i - 1], api::FinishReason::kLength, std::monostate{}, {}, now);
  }
}

void DecoderInstance::OnGrant(RequestState& work) {
  for (const auto& choice : work.choices) {
    if (!choice->ended && choice->sequence.output_tokens() < work.control->granted())
      SetPause(*choice, kPausedForGrant, false);
  }
}

bool DecoderInstance::MustStartSoon(const RequestState& work) const {
  return work.phase == Phase::kQueued && work.request.priority == api::Priority::kInteractive &&
         !work.request.stepwise && !work.request.detached;
}

TimePoint DecoderInstance::MovePrefixes(TimePoint now) {
  const TimePoint expiry = pins_.Expire(now);
  scheduler_.set_pinned_window_blocks(pins_.held_window_blocks());
  if (transfer_ == nullptr) return expiry;
  return std::min(expiry, transfer_->Move(now, scheduler_.running() > 0));
}

TimePoint DecoderInstance::CheckReaders(TimePoint now) {
  if (now < next_reader_check_) return next_reader_check_;
  next_reader_check_ = paused_.empty() ? TimePoint::max() : now + kReaderCheck;
  for (size_t i = 0; i < paused_.size();) {
    RequestState& work = *paused_[i];
    const size_t unread = work.stream->unread_bytes();
    if (unread < work.reader_unread) {
      work.reader_unread = unread;
      work.reader_since = now;
    }
    if (unread <= options_.reader.unread_bytes) {
      paused_[i] = paused_.back();
      paused_.pop_back();
      work.reader_paused = false;
      work.permit.StepBack();
      for (const auto& choice : work.choices) {
        if (!choice->ended) SetPause(*choice, kPausedForReader, false);
      }
    } else if (now - work.reader_since >= options_.reader.patience) {
      ++statistics_.count().reader_cancels;
      EndRequest(
          work,
          Status(StatusCode::kCancelled, "cancelled",
                 "the reader left " + std::to_string(unread) + " bytes unread for " +
                     std::to_string(static_cast<int64_t>(ToSeconds(options_.reader.patience))) +
                     " s"),
          now);
    } else {
      ++i;
    }
  }
  return next_reader_check_;
}

// --- the step ---

bool DecoderInstance::Step() {
  StepEvent event;
  event.begin = clock_.Now();
  const StepPlan& plan = scheduler_.Plan(event.begin);
  NoteAdmissions(event.begin);
  NoteQueue(event.begin);
  AddDrafts();
  scheduler_.Constrain();
  event.planned = event.launched = clock_.Now();
  StepResult result = Run(plan, &event.launched);
  const TimePoint now = clock_.Now();
  event.status = result.status;
  TraceSlices(plan, event.begin, now);
  const uint64_t drawn_before = statistics_.count().output_tokens;
  const std::span<Outcome> outcomes = scheduler_.Commit(result, now);
  for (Outcome& outcome : outcomes) Deliver(outcome, now);
  // Readers are woken before the counting below, which they would otherwise wait for.
  wakers_.WakeAll();

  const bool ran = !plan.slices.empty() || !outcomes.empty();
  if (!plan.slices.empty()) {
    event.output_tokens = static_cast<int>(statistics_.count().output_tokens - drawn_before);
    Account(plan, result, std::move(event), now);
    deps_.runner->Recycle(std::move(result));
  }
  FinishRound();
  Publish(now);
  return ran;
}

// Adds the tokens of the draft model: after the plan, since draft tokens may only use what it
// leaves, and before the constraints, which apply to them too.
void DecoderInstance::AddDrafts() {
  if (drafter_.has_value() && !scheduler_.draft_requests().empty())
    scheduler_.TakeDrafts(drafter_->Run(scheduler_.draft_requests()));
}

// A plan without slices is committed too: it may hold outcomes that need no forward pass.
StepResult DecoderInstance::Run(const StepPlan& plan, TimePoint* launched) {
  if (plan.slices.empty()) return {};
  deps_.runner->Launch(plan);
  *launched = clock_.Now();
  return deps_.runner->Collect();
}

// Before the step is committed: the traces of requests that it ends show it too.
void DecoderInstance::TraceSlices(const StepPlan& plan, TimePoint begin, TimePoint now) {
  for (size_t i = 0; i < plan.slices.size(); ++i) {
    const SequenceSlice& slice = plan.slices[i];
    const RequestState& work = *by_sequence_[slice.sequence];
    api::RequestTrace* const trace = work.request.trace.get();
    if (trace == nullptr) continue;
    trace->InStep(plan.step);
    if (static_cast<int>(i) < scheduler_.decode_rows()) continue;
    const auto choice =
        std::find_if(work.choices.begin(), work.choices.end(),
                     [&](const auto& each) { return each->sequence.id == slice.sequence; });
    trace->engine().Append({.at = begin,
                            .took = now - begin,
                            .step = plan.step,
                            .tokens = static_cast<int32_t>(slice.tokens.size()),
                            .kind = api::TraceEvent::Kind::kPrefill,
                            .choice = static_cast<uint8_t>((*choice)->sequence.choice)});
  }
}

// Updates the counters with a step that ran, which ended at `now`, and reports it.
void DecoderInstance::Account(const StepPlan& plan, const StepResult& result, StepEvent event,
                              TimePoint now) {
  EngineStats& count = statistics_.count();
  if (result.aborted) {
    count.wasted_tokens += static_cast<uint64_t>(plan.tokens);
  } else {
    count.prompt_tokens_computed += static_cast<uint64_t>(scheduler_.prefill_tokens());
  }
  const std::span<const int> accepted = scheduler_.accepted_drafts();
  if (scheduler_.draft_tokens() > 0 && event.status.ok() && !result.aborted) {
    ++count.draft_steps;
    count.draft_tokens += static_cast<uint64_t>(scheduler_.draft_tokens());
    count.accepted_tokens +=
        static_cast<uint64_t>(std::accumulate(accepted.begin(), accepted.end(), 0));
  }
  ++count.steps;
  count.busy += now - event.begin;
  pulse_.StepTook(now - event.begin);
  event.step = plan.step;
  event.end = clock_.Now();
  event.forward = result.forward;
  event.decode_sequences = scheduler_.decode_rows();
  event.prefill_sequences = static_cast<int>(plan.slices.size()) - event.decode_sequences;
  event.prefill_tokens = scheduler_.prefill_tokens();
  event.draft_tokens = scheduler_.draft_tokens();
  event.accepted_drafts = accepted;
  steps_.Add({.step = event.step,
              .begin = event.begin,
              .plan = event.planned - event.begin,
              .launch = event.launched - event.planned,
              .collect = now - event.launched,
              .commit = event.end - now,
              .forward = event.forward,
              .decode_rows = event.decode_sequences,
              .prefill_rows = event.prefill_sequences,
              .prefill_tokens = event.prefill_tokens,
              .draft_tokens = event.draft_tokens,
              .output_tokens = event.output_tokens,
              .failed = !event.status.ok(),
              .aborted = result.aborted});
  if (deps_.observer != nullptr) deps_.observer->OnStep(event);
}

// Operators see why a request waits, also afterwards (RequestTrace). After the plan, which knows
// who got a place.
void DecoderInstance::NoteQueue(TimePoint now) {
  if (scheduler_.waiting() == 0 || now < next_queue_note_) return;
  next_queue_note_ = now + kQueueNote;
  (void)scheduler_.ListWaiting(now, waiting_view_);
}

void DecoderInstance::NoteAdmissions(TimePoint now) {
  for (const Preempted& p : scheduler_.preempted()) {
    RequestState& work = *by_sequence_[p.sequence->id];
    ++work.preemptions;
    NoteWait(*p.sequence, api::WaitReason::kPreempted, now, p.lost_tokens);
    statistics_.count().wasted_tokens += static_cast<uint64_t>(p.lost_tokens);
    if (deps_.observer != nullptr) {
      deps_.observer->OnPreemption(p.cause == Preempted::Cause::kPriority ? "lane" : "kv",
                                   p.lost_tokens);
    }
  }
  for (const Admitted& a : scheduler_.admitted()) {
    RequestState& work = *by_sequence_[a.sequence->id];
    statistics_.count().prefix_queried_tokens += static_cast<uint64_t>(a.queried_tokens);
    statistics_.count().prefix_hit_tokens +=
        static_cast<uint64_t>(a.queried_tokens > 0 ? a.cached_tokens : 0);
    if (deps_.observer != nullptr && a.queried_tokens > 0) {
      deps_.observer->OnPrefixLookup(a.queried_tokens, a.cached_tokens);
    }
    NoteWait(*a.sequence, api::WaitReason::kNone, now);
    if (work.request.trace != nullptr) {
      work.request.trace->engine().Append({.at = now,
                                           .step = scheduler_.step(),
                                           .tokens = a.cached_tokens,
                                           .kind = api::TraceEvent::Kind::kRuns,
                                           .choice = static_cast<uint8_t>(a.sequence->choice)});
    }
    if (work.phase != Phase::kQueued) continue;
    work.phase = Phase::kPrefill;
    work.first_run = now;
    work.usage.cached_tokens = a.sequence->cached_tokens;
    if (work.request.explain_prefix) work.usage.prefix = ReportPrefix(*a.sequence);
    work.permit.LeaveQueue();
    if (deps_.observer != nullptr) deps_.observer->OnFirstRun(now - work.permit.accepted_at());
  }
}

// `s` was just admitted for the first time.
std::shared_ptr<const api::PrefixReport> DecoderInstance::ReportPrefix(const Sequence& s) const {
  constexpr size_t kShownTokens = 16;
  constexpr size_t kShownBytes = 256;
  const auto report = std::make_shared<api::PrefixReport>();
  const int on_disk = s.cached_tokens - s.loaded_from;
  report->disk_tokens = std::clamp(on_disk, 0, s.loaded_tokens);
  report->memory_tokens = s.cached_tokens - report->disk_tokens;
  PrefixView view{.cached = s.cached_tokens,
                  .reusable = std::min(s.reusable(), s.prompt_tokens - 1),
                  .load_failed = s.load_failed,
                  .windowed = limits_.window_blocks > 0};
  if (s.explanation != nullptr) {
    view.looked_up = true;
    view.known = s.explanation->known;
    view.evicted = s.explanation->evicted;
    view.other_salt = s.explanation->other_salt;
  }
  report->cause = CauseOf(view);
  if (s.explanation == nullptr || !s.explanation->differs) return report;
  report->first_difference = s.explanation->known;
  Utf8Repair repair;
  std::string bytes;
  const auto from = static_cast<size_t>(report->first_difference);
  const auto end = std::min(from + kShownTokens, static_cast<size_t>(s.prompt_tokens));
  for (size_t i = from; i < end && bytes.size() < kShownBytes; ++i)
    deps_.text->AppendBytes(s.tokens[i], i == 0, /*skip_special=*/false, bytes);
  if (bytes.size() > kShownBytes) bytes.resize(kShownBytes);
  repair.Push(bytes, report->text);
  repair.Finish(report->text);
  return report;
}

void DecoderInstance::Deliver(Outcome& outcome, TimePoint now) {
  RequestState* found = by_sequence_[outcome.sequence->id];
  if (found == nullptr) return;  // its request ended in this step, through a sibling
  RequestState& work = *found;
  SequenceOutput& choice = *work.choices[static_cast<size_t>(outcome.sequence->choice)];
  if (choice.ended) return;
  if (outcome.kind == Outcome::Kind::kFailed)
    return EndRequest(work, std::move(outcome.status), now);
  wakers_.Add(work.stream->waker().get());
  if (outcome.result != nullptr && !outcome.result->prompt_logprobs.empty())
    DeliverPromptLogprobs(work, outcome);
  if (outcome.kind == Outcome::Kind::kToken) {
    DeliverToken(work, choice, outcome, now);
  } else if (outcome.ended) {
    if (work.request.pin) {
      const Result<int> pinned = pins_.Add(choice.sequence, work.request, now);
      if (!pinned.ok()) return EndRequest(work, pinned.status(), now);
      work.usage.pinned_tokens = *pinned;
      scheduler_.set_pinned_window_blocks(pins_.held_window_blocks());
    }
    EndChoice(work, choice, outcome.finish_reason, std::monostate{}, {}, now);
  } else {
    PauseIfBehind(work, now);  // prompt tokens are read more slowly than computed
  }
}

void DecoderInstance::DeliverPromptLogprobs(RequestState& work, const Outcome& outcome) {
  const std::vector<TokenId>& prompt = work.request.prompt;
  const auto deliver = [&](size_t position, const sampling::RowLogprobs* logprobs) {
    api::StreamEvent event;
    event.kind = api::StreamEvent::Kind::kPromptToken;
    event.token = prompt[position];
    std::string bytes;
    deps_.text->AppendBytes(prompt[position], position == 0, /*skip_special=*/false, bytes);
    work.prompt_text.Push(bytes, event.text);
    if (position + 1 == prompt.size()) work.prompt_text.Finish(event.text);
    if (logprobs != nullptr) event.logprobs = WithBytes(*logprobs);
    work.stream->Append(std::move(event));
  };
  if (outcome.result == nullptr || outcome.scored_from == 1) deliver(0, nullptr);
  if (outcome.result == nullptr) return;
  size_t position = static_cast<size_t>(outcome.scored_from);
  for (const auto& logprobs : outcome.result->prompt_logprobs) deliver(position++, &logprobs);
}

void DecoderInstance::DeliverToken(RequestState& work, SequenceOutput& choice, Outcome& outcome,
                                   TimePoint now) {
  api::StreamEvent event;
  event.kind = api::StreamEvent::Kind::kToken;
  event.choice = outcome.sequence->choice;
  event.token = outcome.token;
  std::optional<size_t> stop;
  if (!outcome.stop_token || work.request.sampling.include_stop_in_output)
    stop = choice.text.Push(outcome.token, event.text);
  if (outcome.logprobs != nullptr) event.logprobs = WithBytes(*outcome.logprobs);
  work.stream->Append(std::move(event));

  ++work.usage.completion_tokens;
  ++choice.delivered;
  ++statistics_.count().output_tokens;
  if (work.phase != Phase::kDecode) {
    work.phase = Phase::kDecode;
    work.first_token = now;
    if (deps_.observer != nullptr) deps_.observer->OnFirstToken(now - work.permit.accepted_at());
    if (work.request.trace != nullptr) {
      work.request.trace->engine().Append(
          {.at = now, .step = scheduler_.step(), .kind = api::TraceEvent::Kind::kFirstToken},
          /*essential=*/true);
    }
  } else if (choice.last_token != TimePoint{}) {
    const Duration gap = now - choice.last_token;
    if (deps_.observer != nullptr) deps_.observer->OnNextToken(gap);
    if (work.request.trace != nullptr) work.request.trace->Gap(gap, scheduler_.step());
  }
  choice.last_token = work.last_token = now;

  if (stop) {
    return EndChoice(work, choice, api::FinishReason::kStop, work.stops.text(*stop), {}, now);
  }
  if (outcome.ended) {
    std::string rest;
    choice.text.Finish(rest);
    if (outcome.named_stop)
      return EndChoice(work, choice, outcome.finish_reason, outcome.token, std::move(rest), now);
    return EndChoice(work, choice, outcome.finish_reason, std::monostate{}, std::move(rest), now);
  }
  if (work.request.stepwise && choice.sequence.output_tokens() >= work.control->granted()) {
    SetPause(choice, kPausedForGrant, true);
  }
  PauseIfBehind(work, now);
}

void DecoderInstance::EndChoice(RequestState& work, SequenceOutput& choice,
                                api::FinishReason reason,
                                std::variant<std::monostate, TokenId, std::string> stop_reason,
                                std::string rest, TimePoint now) {
  api::StreamEvent event;
  event.kind = api::StreamEvent::Kind::kChoiceEnd;
  event.choice = choice.sequence.choice;
  event.text = std::move(rest);
  event.finish_reason = reason;
  event.stop_reason = std::move(stop_reason);
  work.stream->Append(std::move(event));
  if (choice.sequence.choice == 0) work.finish_reason = reason;
  Leave(work, choice, /*reusable=*/true);
  if (--work.live_choices == 0) EndRequest(work, OkStatus(), now);
}

void DecoderInstance::Leave(RequestState& work, SequenceOutput& choice, bool reusable) {
  choice.ended = true;
  --live_choices_;
  // Tokens that the step drew after a stop string were not delivered, so they do not count as
  // accepted predictions.
  Sequence& s = choice.sequence;
  AcceptanceStats nobodys;
  s.prediction.Advance(std::span<const TokenId>(s.tokens).first(
                           static_cast<size_t>(s.prompt_tokens + choice.delivered)),
                       nobodys);
  work.usage.accepted_prediction_tokens += s.prediction.accepted();
  work.usage.rejected_prediction_tokens += s.prediction.rejected();
  if (drafter_.has_value()) drafter_->Release(choice.sequence);
  scheduler_.Finish(choice.sequence, reusable);
}

// The one place where a request ends.
void DecoderInstance::EndRequest(RequestState& work, Status status, TimePoint now) {
  for (const auto& choice : work.choices) {
    const Sequence& s = choice->sequence;
    work.computed_tokens += s.computed;
    NoteWait(choice->sequence, api::WaitReason::kNone, now);
    if (!choice->ended) {
      const bool failed = status.code() == StatusCode::kInternal;
      Leave(work, *choice, /*reusable=*/!failed);
    }
    by_sequence_[s.id] = nullptr;
    free_ids_.push_back(s.id);
  }
  if (!status.ok())
    statistics_.count().wasted_tokens += static_cast<uint64_t>(work.computed_tokens);
  ++statistics_.count().finished;
  if (work.phase != Phase::kQueued) {
    statistics_.ServiceTook(now - work.first_run);
  }

  api::Timings timings;
  const TimePoint accepted = work.permit.accepted_at();
  const TimePoint begun = std::min(work.first_run, now);
  timings.prepare = work.request.prepare;
  timings.queue = std::max(Duration(0), begun - accepted - work.request.prepare);
  if (work.phase != Phase::kQueued) timings.prefill = std::min(work.first_token, now) - begun;
  if (work.phase == Phase::kDecode) timings.decode = work.last_token - work.first_token;

  if (deps_.observer != nullptr) {
    RequestEvent event;
    event.id = work.request.id;
    event.tenant = work.request.tenant;
    event.priority = work.request.priority;
    event.status = status;
    event.phase = work.phase;
    event.finish_reason = work.finish_reason;
    event.usage = work.usage;
    event.timings = timings;
    event.n = work.request.n;
    event.preemptions = work.preemptions;
    event.wasted_tokens = status.ok() ? 0 : work.computed_tokens;
    deps_.observer->OnFinished(event);
  }
  if (api::RequestTrace* const trace = work.request.trace.get()) {
    trace->SetEnd(status.ok() ? "ok" : status.reason());
    trace->engine().Append({.at = now,
                            .step = scheduler_.step(),
                            .tokens = work.usage.completion_tokens,
                            .kind = api::TraceEvent::Kind::kEnded},
                           /*essential=*/true);
  }
  if (work.reader_paused) std::erase(paused_, &work);
  wakers_.Add(work.stream->waker().get());
  work.stream->Finish(std::move(status), work.usage, timings);
  Retire(work);
}

// --- pauses ---

void DecoderInstance::PauseIfBehind(RequestState& work, TimePoint now) {
  if (work.reader_paused || work.stream->unread_bytes() <= options_.reader.unread_bytes) return;
  work.reader_paused = true;
  work.reader_since = now;
  work.reader_unread = work.stream->unread_bytes();
  paused_.push_back(&work);
  next_reader_check_ = std::min(next_reader_check_, now + kReaderCheck);
  ++statistics_.count().reader_pauses;
  work.permit.StepAside(options_.reader.aside);
  for (const auto& choice : work.choices) {
    if (!choice->ended) SetPause(*choice, kPausedForReader, true);
  }
}

void DecoderInstance::SetPause(SequenceOutput& choice, unsigned bit, bool on) {
  const unsigned before = choice.pause;
  choice.pause = on ? before | bit : before & ~bit;
  if ((before == 0) == (choice.pause == 0)) return;
  if (before == 0) {
    scheduler_.Pause(choice.sequence);
    NoteWait(choice.sequence,
             bit == kPausedForReader ? api::WaitReason::kReader : api::WaitReason::kGrant,
             clock_.Now());
  } else {
    scheduler_.Resume(choice.sequence);
    NoteWait(choice.sequence, api::WaitReason::kNextStep, clock_.Now());
  }
}

// --- out ---

api::Logprob DecoderInstance::WithBytes(const sampling::TokenLogprob& logprob) const {
  api::Logprob out;
  out.token = logprob.token;
  out.logprob = logprob.logprob;
  deps_.text->AppendBytes(logprob.token, /*first=*/false, /*skip_special=*/false, out.bytes);
  out.special = deps_.text->IsSpecial(logprob.token);
  return out;
}

api::TokenLogprobs DecoderInstance::WithBytes(const sampling::RowLogprobs& logprobs) const {
  api::TokenLogprobs out;
  out.chosen = WithBytes(logprobs.chosen);
  out.top.reserve(logprobs.top.size());
  for (const auto& top : logprobs.top) out.top.push_back(WithBytes(top));
  return out;
}

// --- for operators ---

api::LiveSequence DecoderInstance::Describe(const RequestState& work, const Sequence& s,
                                            TimePoint now) const {
  using RowPhase = api::LiveSequence::Phase;
  api::LiveSequence row;
  const api::RequestTrace* const trace = work.request.trace.get();
  row.request.Set(trace == nullptr ? work.request.id : trace->head().id);
  row.tenant.Set(work.request.tenant);
  if (trace != nullptr) row.caller.Set(trace->head().caller);
  row.phase = s.state() == SequenceState::kRunning
                  ? (s.decoding() ? RowPhase::kDecode : RowPhase::kPrefill)
                  : (s.state() == SequenceState::kPaused ? RowPhase::kPaused : RowPhase::kWaiting);
  row.waits_for = s.waits_for;
  row.priority = work.request.priority;
  row.choice = static_cast<uint8_t>(s.choice);
  row.preemptions = s.preemptions;
  row.prompt_tokens = s.prompt_tokens;
  row.cached_tokens = s.cached_tokens;
  row.computed_tokens = s.computed;
  row.output_tokens = s.output_tokens();
  row.max_tokens = s.target_tokens - s.prompt_tokens;
  row.blocks = s.blocks.size();
  row.age = now - work.permit.accepted_at();
  if (s.waits_for != api::WaitReason::kNone) row.waited = now - s.waits_since;
  return row;
}

void DecoderInstance::DescribeBlocks(api::LiveEngine* out) {
  using api::LiveEngine;
  for (size_t i = 0; i < block_view_.size(); ++i) {
    const int references = pool_.references(static_cast<kv::BlockId>(i));
    block_view_[i] = references == 0   ? LiveEngine::kCached
                     : references == 1 ? LiveEngine::kUsed
                                       : LiveEngine::kShared;
    out->kv_used += static_cast<int>(references == 1);
    out->kv_shared += static_cast<int>(references > 1);
  }
  for (const kv::BlockId block : pool_.free_blocks())
    block_view_[static_cast<size_t>(block)] = LiveEngine::kFree;
  pins_.ForEachBlock(
      [this](kv::BlockId block) { block_view_[static_cast<size_t>(block)] = LiveEngine::kPinned; });
  out->kv_blocks = pool_.total();
  out->kv_free = pool_.free();
  out->kv_cached = pool_.cached();
  out->kv_pinned = pins_.held_blocks();
  DrawBlocks(block_view_, out);
}

// Between steps. Its work is bounded by the rows and the blocks.
void DecoderInstance::TakeLive(TimePoint now) {
  live_.Take(now, [&](api::LiveEngine& out) {
    const auto add = [&](const Sequence& s) {
      if (out.sequences.size() < api::LiveEngine::kMaxRows)
        out.sequences.push_back(Describe(*by_sequence_[s.id], s, now));
    };
    for (const Sequence* s : scheduler_.running_sequences()) add(*s);
    const size_t waiting = scheduler_.ListWaiting(now, waiting_view_);
    for (size_t i = 0; i < waiting; ++i) {
      ++out.reasons[static_cast<size_t>(waiting_view_[i]->waits_for)];
      add(*waiting_view_[i]);
    }
    out.max_num_seqs = MaxNumSeqs(options_.scheduler);
    out.running = scheduler_.running();
    out.waiting = scheduler_.waiting();
    out.paused = live_choices_ - out.running - out.waiting;
    for (size_t i = 0; out.paused > 0 && i < works().size(); ++i) {
      for (const auto& choice : works()[i]->choices) {
        if (choice->ended || choice->sequence.state() != SequenceState::kPaused) continue;
        ++out.reasons[static_cast<size_t>(choice->sequence.waits_for)];
        add(choice->sequence);
      }
    }
    out.left_out = live_choices_ - static_cast<int>(out.sequences.size());
    out.waiting_tokens = admission_->queued_tokens.load();
    out.preparing = admission_->preparing.load();
    DescribeBlocks(&out);
    steps_.CopyTo(&out, now);
  });
}

void DecoderInstance::PublishStatistics() {
  statistics_.Publish(scheduler_, pool_, live_choices_,
                      transfer_ ? transfer_->stats() : TransferStats(), pins_.held_blocks());
}

}  // namespace tutti::engine
