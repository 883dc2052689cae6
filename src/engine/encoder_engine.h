// EncoderEngine: serves one encoder model to many callers, as Engine does for decoders.
//
//   // Admission or refusal; the server may hold the encoding from here on.
//   Result<AdmissionPermit> permit = engine.Admit({.items = 3, .bytes = body.size()});
//   api::Encoding encoding(state, permit->control());
//   // Once the inputs are tokenised, the request goes to the engine thread.
//   Status status = engine.Submit(std::move(*permit), std::move(request), state);
//
// Threads: Admit, Submit, stats, heartbeat, BeginDrain are for any thread, lock-free in the common
// case and never wait for inference. All work happens on the thread of the DeviceLoop, or, where
// Start() is never called, inside RunOneStep() on the caller's.
//
// Every submitted request is finished exactly once, also when the engine is destroyed. Results are
// the model's raw rows; the reader normalises, truncates or applies a sigmoid, off the engine
// thread.
#pragma once

#include <memory>

#include "api/encoding.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/device_loop.h"
#include "engine/encoder_runner.h"
#include "engine/observer.h"
#include "engine/options.h"
#include "engine/request.h"
#include "engine/stats.h"

namespace tutti::engine {

class EncoderInstance;

// Collaborators; all outlive the engine. The runner is called on the engine thread only.
struct EncoderDependencies {
  EncoderRunner* runner = nullptr;
  const Clock* clock = nullptr;
  EncoderObserver* observer = nullptr;                        // may be null
  const std::atomic<api::LoadLevel>* memory_level = nullptr;  // as EngineDependencies'
};

// Facts about a request that are known before its inputs are parsed.
struct AdmitEncoding {
  int items = 1;     // inputs
  size_t bytes = 0;  // that the request will hold while it waits
  api::Priority priority = api::Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
};

class EncoderEngine : public EngineBase {
 public:
  // With `outside`, shares that device's thread with other slots; without, owns a loop of its own.
  EncoderEngine(const EncoderOptions& options, const EncoderDependencies& dependencies,
                DeviceLoop* outside = nullptr);
  ~EncoderEngine();  // requests still alive end with UNAVAILABLE [draining]

  // Takes a place in the queue. Refusals: draining, queue_full (requests, inputs or bytes; with
  // retry-after), overloaded (the predicted wait passes the deadline), deadline_exceeded,
  // request_exceeds_capacity (it exceeds the bounds alone).
  Result<AdmissionPermit> Admit(const AdmitEncoding& request);

  // Hands the request over. OK: the engine will finish the state. Otherwise it was not touched and
  // the caller still writes it; the permit is spent either way. Refusals: empty_prompt,
  // token_out_of_range and context_length_exceeded with the input's index, unsupported_parameter
  // (an output that the model has not), request_exceeds_capacity and queue_full (memory for
  // results; tokens), deadline_exceeded, draining. May throw std::bad_alloc, having changed
  // nothing.
  Status Submit(AdmissionPermit permit, TokenizedRequest request,
                std::shared_ptr<api::EncodingState> state);

  // Admit, make a state, Submit: for callers that have tokens already.
  Result<api::Encoding> Submit(TokenizedRequest request, std::shared_ptr<Waker> waker);

  const EncoderLimits& limits() const;
  EncoderStats stats() const;

  // For invariant checks in tests; only while no step can run.
  EncoderInstance& encoder_for_test();

 private:
  Duration PredictedWait(bool small) const;
  Status ReserveResult(AdmissionState& admission, api::Priority priority, int64_t bytes) const;

  const std::unique_ptr<EncoderInstance> encoder_;
};

}  // namespace tutti::engine
