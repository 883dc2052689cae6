// EngineObserver and EncoderObserver: callbacks about steps, batches and requests, so that the
// engine does not depend on metrics and traces. Called on the engine thread, between steps or
// batches; must not block, throw or call back into the engine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "api/encoding.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/policy/dispatch.h"

namespace tutti::engine {

enum class Phase { kQueued, kPrefill, kDecode };

// One forward pass.
struct StepEvent {
  uint64_t step = 0;
  TimePoint begin{}, end{};         // plan to last event appended
  TimePoint planned{}, launched{};  // between these: when each of the two had been done
  Duration forward{0};              // the runner's own figure
  int decode_sequences = 0;         // rows of one token, draft tokens aside
  int prefill_sequences = 0;
  int prefill_tokens = 0;
  int draft_tokens = 0;  // proposed for decode sequences, each a row
  // [i]: number of sequences that accepted draft token i. Valid during the callback only.
  std::span<const int> accepted_drafts;
  int output_tokens = 0;  // tokens drawn and delivered
  Status status;          // of the whole step
};

// The end of one request; reported once, just before its terminal event.
struct RequestEvent {
  std::string_view id, tenant;
  api::Priority priority = api::Priority::kInteractive;
  Status status;                                               // of the terminal event
  Phase phase = Phase::kQueued;                                // how far it had come
  api::FinishReason finish_reason = api::FinishReason::kStop;  // of choice 0, when status is OK
  api::Usage usage;
  api::Timings timings;
  int n = 1;
  int preemptions = 0;  // over all choices
  // Tokens computed for a request that was cancelled or failed, without those of OnPreemption.
  int wasted_tokens = 0;
};

class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnStep(const StepEvent& /*event*/) {}
  virtual void OnFirstRun(Duration /*waited since accepted*/) {}
  virtual void OnFirstToken(Duration /*since accepted*/) {}
  virtual void OnNextToken(Duration /*since the choice's last token*/) {}
  virtual void OnPrefixLookup(int /*queried_tokens*/, int /*hit_tokens*/) {}
  virtual void OnPreemption(std::string_view /*kv | sequence*/, int /*tokens_to_recompute*/) {}
  virtual void OnFinished(const RequestEvent& /*event*/) {}
};

struct BatchEvent {
  uint64_t batch = 0;
  TimePoint begin{}, end{};  // chosen to results delivered
  Duration forward{0};       // launched to collected
  Duration expected{0};      // by the cost model, before
  int items = 0, tokens = 0;
  int longest = 0;        // tokens; a padded batch would compute items * longest
  int oldest_passed = 0;  // most batches that one of its items had been passed over in
  DispatchReason reason = DispatchReason::kIdle;
  bool retry = false;  // one item of a batch that failed, alone
  Status status;
};

// The end of one request; reported once, just before its result becomes visible.
struct EncodingEvent {
  std::string_view id, tenant;
  api::Priority priority = api::Priority::kInteractive;
  Status status;
  int items = 0;
  int64_t tokens = 0;
  int64_t wasted_tokens = 0;  // computed for it although it was cancelled or failed
  api::EncodeTimings timings;
};

class EncoderObserver {
 public:
  virtual ~EncoderObserver() = default;
  virtual void OnBatch(const BatchEvent& /*event*/) {}
  virtual void OnFinished(const EncodingEvent& /*event*/) {}
};

}  // namespace tutti::engine
