// RequestTrace: when one request passed each of its stages, and why it waited; RequestTraces: the
// traces that the last requests left. For operators (docs/live.md).
//
// A trace is made by the thread that accepts the request, with all memory that it will ever need.
// From then on each of its two logs has one writer: the server's thread, and the engine thread.
// Events are immutable once they can be seen, so that any thread reads them without a lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/trace_context.h"

namespace tutti::api {

class Cancellable;  // api/token_stream.h

// Why a sequence does not run.
enum class WaitReason : uint8_t {
  kNone,         // it runs
  kNextStep,     // for the next step, or for room in a step's budget of prompt tokens
  kMaxNumSeqs,   // --max-num-seqs sequences run
  kKvBlocks,     // it does not fit into the available KV blocks
  kBehind,       // blocks are kept for an earlier sequence that does not fit
  kFairShare,    // sequences of other tenants, which have used less, go first
  kPriority,     // more urgent sequences go first
  kPreempted,    // it ran, and its blocks or its place were given to another
  kSibling,      // for another choice of its request, which computes the same prompt
  kSamePrompt,   // for another request, which computes the beginning of its prompt
  kPrefixLoad,   // the beginning of its prompt is being read from files
  kReader,       // its reader is behind
  kGrant,        // for permission to generate (stepwise use of the library)
  kFailedStep,   // a step failed: its sequences run one by one
  kBatchWindow,  // for more requests, or for the end of the batch (static batching, encoders)
};
inline constexpr size_t kWaitReasons = static_cast<size_t>(WaitReason::kBatchWindow) + 1;
std::string_view WaitReasonName(WaitReason reason);  // "max_num_seqs"

struct TraceEvent {
  enum class Kind : uint8_t {
    // written by the server
    kReceived,  // the first byte of the request
    kParsed,    // its body is understood, and it goes to the model
    kWritten,   // the answer was given to the socket; `tokens`: the HTTP status
    // written by the engine
    kAccepted,    // it has a place in the queue; `took`: template and tokenizer, from then on
    kSubmitted,   // the engine has it; `tokens`: of its prompt
    kWaits,       // from now on, for `reason`; kPreempted: `tokens` are to be computed again
    kRuns,        // admitted to run; `tokens`: found in the prefix cache
    kPrefill,     // a part of its prompt was computed; `tokens`, `step`; `took`: the step
    kFirstToken,  // drawn in `step`
    kEnded,       // `tokens`: of the output
    // written by a frontend's pool of workers
    kSent,     // given to a worker
    kReplied,  // the worker's last message came
  };
  TimePoint at{};
  Duration took{0};
  uint64_t step = 0;
  int32_t tokens = 0;
  Kind kind = Kind::kReceived;
  WaitReason reason = WaitReason::kNone;
  uint8_t choice = 0;
};
std::string_view TraceEventName(TraceEvent::Kind kind);  // "first_token"

// A bounded, append-only log with one writer, which any thread reads.
template <size_t kCapacity>
class TraceLog {
 public:
  // Once the log is full, events are counted only. The last places are for events that are
  // `essential`. Times never go back: an event that is noted with the time when a turn began counts
  // as of the one before it.
  void Append(const TraceEvent& event, bool essential = false) {
    const size_t count = count_.load(std::memory_order_relaxed);
    if (count >= (essential ? kCapacity : kCapacity - kReserved)) {
      dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    events_[count] = event;
    if (count > 0) events_[count].at = std::max(event.at, events_[count - 1].at);
    count_.store(count + 1, std::memory_order_release);
  }
  std::span<const TraceEvent> events() const {
    return std::span(events_).first(count_.load(std::memory_order_acquire));
  }
  int dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kReserved = 4;

  std::array<TraceEvent, kCapacity> events_;
  std::atomic<size_t> count_{0};
  std::atomic<int> dropped_{0};
};

class RequestTrace {
 public:
  // Constant.
  struct Head {
    std::string id = {};     // the request's
    std::string route = {};  // "chat.completions"; may be empty
    std::string tenant = {};
    std::string caller = {};    // Caller::credential; may be empty
    int64_t begun_unix_ns = 0;  // at ...
    TimePoint begun_at = {};    // ... this time
    TraceContext parent = {};   // sent by the caller; may be invalid
    // Context of the request's own span, set by RequestTraces::Begin(). Invalid while traces are
    // not exported.
    TraceContext context = {};
  };
  explicit RequestTrace(Head head) : head_(std::move(head)) {}

  const Head& head() const { return head_; }

  // --- the server's thread ---
  TraceLog<12>& server() { return server_; }

  // --- the thread that prepares the request; before Submit() ---
  void SetModel(std::string model) {
    model_.Update([&](std::string& held) { held = std::move(model); });
  }
  // What Cancel() cancels, while it exists.
  void SetCancellable(std::weak_ptr<Cancellable> request) {
    request_.Update([&](auto& held) { held = std::move(request); });
  }

  // --- a frontend's pool of workers, with its lock ---
  TraceLog<12>& hop() { return hop_; }
  // The name of the worker that has the request now.
  void SetWorker(std::string worker) {
    worker_.Update([&](std::string& held) { held = std::move(worker); });
  }

  // --- the engine thread ---
  TraceLog<96>& engine() { return engine_; }
  // The request had a part in this step.
  void InStep(uint64_t step) {
    const uint64_t count = steps_.load(std::memory_order_relaxed);
    if (count > 0 && last_steps_[(count - 1) % kLastSteps].load(std::memory_order_relaxed) == step)
      return;  // through another choice
    last_steps_[count % kLastSteps].store(step, std::memory_order_relaxed);
    steps_.store(count + 1, std::memory_order_release);
  }
  void Waited(WaitReason reason, Duration took) { Add(waited_[static_cast<size_t>(reason)], took); }
  // The time between two tokens of a choice.
  void Gap(Duration gap, uint64_t step) {
    if (gap.count() <= longest_gap_.load(std::memory_order_relaxed)) return;
    longest_gap_.store(gap.count(), std::memory_order_relaxed);
    longest_gap_step_.store(step, std::memory_order_relaxed);
  }
  // Before the event kEnded. `code`: "ok", or the error's.
  void SetEnd(std::string_view code) {
    const size_t size = std::min(code.size(), end_.size() - 1);
    std::memcpy(end_.data(), code.data(), size);
    end_[size] = '\0';
  }

  // --- any thread ---
  // The engine ends the request at its next step, with CANCELLED. False: it has ended, or no engine
  // of this process has it.
  bool Cancel() const;
  std::string model() const { return model_.Copy(); }    // empty: not known yet
  std::string worker() const { return worker_.Copy(); }  // empty: no worker had it
  // The context that is sent to a worker: its spans are children of the span "worker". Returns the
  // caller's context if traces are not exported.
  TraceContext HopContext() const;
  const TraceLog<12>& server() const { return server_; }
  const TraceLog<96>& engine() const { return engine_; }
  const TraceLog<12>& hop() const { return hop_; }
  uint64_t steps() const { return steps_.load(std::memory_order_acquire); }
  std::vector<uint64_t> LastSteps() const;  // numbers of the last kLastSteps, ascending
  Duration waited(WaitReason reason) const {
    return Duration(waited_[static_cast<size_t>(reason)].load(std::memory_order_relaxed));
  }
  Duration longest_gap() const { return Duration(longest_gap_.load(std::memory_order_relaxed)); }
  uint64_t longest_gap_step() const { return longest_gap_step_.load(std::memory_order_relaxed); }
  // Valid once the engine's log has kEnded.
  std::string_view end() const { return end_.data(); }

  static constexpr size_t kLastSteps = 128;
  static constexpr uint64_t kHopSpan = 0;  // index of the span "worker" for ChildSpanId()

 private:
  friend class RequestTraces;
  static void Add(std::atomic<int64_t>& total, Duration took) {
    total.store(total.load(std::memory_order_relaxed) + took.count(), std::memory_order_relaxed);
  }

  const Head head_;
  Synchronized<std::string> model_, worker_;
  Synchronized<std::weak_ptr<Cancellable>> request_;
  TraceLog<12> server_, hop_;
  TraceLog<96> engine_;
  // Guarded by the mutex of RequestTraces: the lists that hold it.
  bool kept_ = false, awaits_export_ = false;
  std::array<std::atomic<uint64_t>, kLastSteps> last_steps_ = {};
  std::atomic<uint64_t> steps_{0}, longest_gap_step_{0};
  std::atomic<int64_t> longest_gap_{0};
  std::array<std::atomic<int64_t>, kWaitReasons> waited_ = {};
  std::array<char, 48> end_ = {};
};

// The stages that a request has reached, in their order. They follow one another and do not
// overlap; what lies between them, such as the load of a model, has no stage.
enum class Stage : uint8_t { kReceive, kPrepare, kQueue, kPrefill, kDecode, kWrite };
struct TimedStage {
  Stage stage = Stage::kReceive;
  TimePoint begin{}, end{};
};

// The events of all parts of a request, by their time.
std::vector<TraceEvent> EventsByTime(const RequestTrace& trace);
// The first event of a kind.
std::optional<TraceEvent> FindEvent(std::span<const TraceEvent> events, TraceEvent::Kind kind);
// When a request with these events ended; nothing: it has not. A client that leaves is written off
// before the engine learns of it.
std::optional<TimePoint> EndTimeOf(std::span<const TraceEvent> events);
// `end`: EndTimeOf(), or the present for a request that runs.
std::vector<TimedStage> StagesOf(std::span<const TraceEvent> events, TimePoint begun,
                                 TimePoint end);

// The traces of the last requests of a process. Any thread; the engine thread does not call it.
class RequestTraces {
 public:
  static constexpr size_t kKept = 512;
  // Sampled traces that have not been exported. Further ones are not exported.
  static constexpr size_t kMaxAwaiting = 8192;

  // From now on traces are collected for an exporter: those whose callers record them, and this
  // share, 0 to 1, of those whose callers say nothing. Before the first Begin().
  void CollectForExport(double ratio) { ratio_ = ratio; }

  // Makes a trace and keeps it. If there are too many, the oldest one of a request that has ended
  // is dropped, or the oldest one if none has ended.
  std::shared_ptr<RequestTrace> Begin(RequestTrace::Head head);
  // Those of the requests with this id, oldest first: a call with several prompts has one for each.
  std::vector<std::shared_ptr<const RequestTrace>> Find(std::string_view id) const;
  size_t size() const;

  // Traces of requests that have ended, for the exporter; each is returned once.
  std::vector<std::shared_ptr<const RequestTrace>> TakeEnded();
  // Sampled requests that are not exported, because too many were waiting.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  void Sample(RequestTrace::Head* head) const;
  // Number of references to the trace that other objects hold.
  static long OtherReferences(const std::shared_ptr<RequestTrace>& trace) {
    return trace.use_count() - (trace->kept_ ? 1 : 0) - (trace->awaits_export_ ? 1 : 0);
  }
  static bool HasEnded(const std::shared_ptr<RequestTrace>& trace);

  std::optional<double> ratio_;  // none: nothing is exported
  std::atomic<uint64_t> dropped_{0};
  mutable Mutex mutex_;
  std::deque<std::shared_ptr<RequestTrace>> kept_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<RequestTrace>> awaiting_ GUARDED_BY(mutex_);
};

}  // namespace tutti::api
