// Engine: serves one decoder model to many callers. Other folders use the engine through this class
// only.
//
//   // Admission or refusal; the server may hold the generation from here on.
//   Result<AdmissionPermit> permit = engine.Admit({.n = 1, .bytes = body.size()});
//   api::Generation generation(stream, permit->control());
//   // Once the prompt is tokenised, the request goes to the engine thread.
//   Status status = engine.Submit(std::move(*permit), std::move(request), stream);
//
// Threads: Admit, Submit, Load, stats, heartbeat, BeginDrain are for any thread, lock-free in the
// common case and never wait for inference. All work happens on the thread of the DeviceLoop, or,
// where Start() is never called, inside RunOneStep() on the caller's (one at a time: tests,
// the simulation, benches).
//
// Every submitted request gets exactly one terminal event, also when the engine is destroyed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/device_loop.h"
#include "engine/model_runner.h"
#include "engine/observer.h"
#include "engine/options.h"
#include "engine/request.h"
#include "engine/stats.h"
#include "engine/token_text.h"
#include "kv/prefix_store.h"

namespace tutti::engine {

class DecoderInstance;

// Collaborators; all outlive the engine. The runner is called on the engine thread only.
struct EngineDependencies {
  ModelRunner* runner = nullptr;
  const TokenText* text = nullptr;
  const Clock* clock = nullptr;
  EngineObserver* observer = nullptr;  // may be null
  // Memory load of the process: written by its memory watcher, read at admission; null = green.
  const std::atomic<api::LoadLevel>* memory_level = nullptr;
  // Draft model: a second, smaller model of the same vocabulary (engine/drafter.h), used if
  // SchedulerOptions::speculate; may be null. Called on the engine thread only.
  ModelRunner* draft = nullptr;
  // Keeps prefixes beyond eviction and restarts; may be null. Called on the engine thread.
  kv::PrefixStore* prefixes = nullptr;
};

// Facts about a request that are known before its prompt is tokenised.
struct AdmitRequest {
  int n = 1;
  size_t bytes = 0;  // that the request will hold while it waits
  api::Priority priority = api::Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
};

class Engine : public EngineBase {
 public:
  // With `outside`, shares that device's thread with other slots; without, owns a loop of its own.
  Engine(const EngineOptions& options, const EngineDependencies& dependencies,
         DeviceLoop* outside = nullptr);
  ~Engine();  // stops the own thread; requests still alive end with UNAVAILABLE [draining]

  // Takes a place in the queue. Refusals: draining, queue_full (with retry-after), overloaded (the
  // predicted wait passes the deadline), deadline_exceeded, request_exceeds_capacity (n alone
  // exceeds the bounds).
  Result<AdmissionPermit> Admit(const AdmitRequest& request);

  // Hands the request over. OK: the engine is now the stream's writer and will end it. Otherwise
  // nothing was written and the caller still is; the permit is spent either way. Refusals:
  // empty_prompt, token_out_of_range, context_length_exceeded, request_exceeds_capacity with the
  // numbers, queue_full (prompt tokens), deadline_exceeded, draining.
  Status Submit(AdmissionPermit permit, Request request, std::shared_ptr<api::TokenStream> stream);

  // Admit, make a stream, Submit: for callers that have tokens already.
  Result<api::Generation> Submit(Request request, std::shared_ptr<Waker> waker);

  int max_model_len()
      const;  // prompt and output together: the runner's context, or less where KV is short
  bool speculates() const;  // SchedulerOptions::speculate: whether Request::prediction is used
  const RunnerLimits& limits() const;
  // Prefixes that Request::pin has pinned for the tenant.
  std::vector<api::PinnedPrefix> Pins(const std::string& tenant) const;
  bool Unpin(const std::string& tenant, const std::string& id);  // false: there is none
  // Pins again what a store has kept of an adapter that is served from now on, as `model`. Once for
  // each digest; any thread.
  void RestorePins(const std::shared_ptr<const Adapter>& adapter, const std::string& model);
  api::LoadSnapshot Load() const;
  EngineStats stats() const;

  // For invariant checks in tests; only while no step can run.
  DecoderInstance& decoder_for_test();

 private:
  // Submits a request for each pin that a store has kept, except those of adapters.
  void RestorePins();
  struct PinToRestore {
    kv::PinRecord record;
    std::shared_ptr<const Adapter> adapter;  // null: of the model itself
    std::string model;                       // empty: that of the engine
  };
  // Submits the request of a pin. Refusals that may end, such as a full queue, keep the pin in
  // late_pins_; for others its record is dropped.
  Status Restore(PinToRestore pin);
  // Tries late_pins_ again, until the queue is full. Called when the request of a pin has grown.
  void RestoreLatePins();
  class RestoreMore;

  const std::unique_ptr<DecoderInstance> decoder_;
  kv::PrefixStore* const store_;  // keeps the records of pins; may be null
  Mutex pins_mutex_;
  // Records of pins whose adapter is not served yet.
  std::vector<kv::PinRecord> waiting_pins_ GUARDED_BY(pins_mutex_);
  std::vector<PinToRestore> late_pins_ GUARDED_BY(pins_mutex_);
};

}  // namespace tutti::engine
