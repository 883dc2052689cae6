// EncoderObserver: callbacks about an encoder's batches and requests, so that the engine does not
// depend on metrics. Called on the engine thread, between batches; must not block, throw or call
// back into the engine.
#pragma once

#include <cstdint>
#include <string_view>

#include "api/encoding.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/policy/dispatch.h"

namespace tutti::engine {

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
