// EncoderHarness: an encoder over the fake runner under virtual time, with a decoder if asked
// for, with clients that come at their own times, also while a batch runs. For tests; one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/device_loop.h"
#include "engine/encoder_engine.h"
#include "engine/testing/engine_harness.h"
#include "engine/testing/fake_encoder_runner.h"

namespace tutti::engine::testing {

struct EncodeClient {
  TokenizedRequest request;
  std::optional<api::Encoding> encoding;  // reset() leaves
  std::optional<Result<api::EncodeResult>> result;
  TimePoint sent{}, ended_at = TimePoint::max();
  int wakes = 0;
  std::function<void()> then;  // called once it is done
  bool done() const { return ended_at != TimePoint::max(); }
  bool ok() const { return result.has_value() && result->ok(); }
  Duration took() const { return ended_at - sent; }
};

// A decoder on the same device, and its streams.
struct HarnessDecoder {
  HarnessDecoder(const EngineOptions& options, const Clock& clock, DeviceLoop& loop);
  FakeModelRunner runner;
  FakeTokenText text;
  std::unique_ptr<Engine> engine;
  struct Stream {
    api::Generation generation;
    Received received;
  };
  std::vector<Stream> streams;
};

class EncoderHarness {
 public:
  explicit EncoderHarness(const EncoderOptions& options = {}, const EncodeTimingModel& timing = {},
                          const EncoderLimits& limits = FakeEncoderRunner::DefaultLimits());

  // The refusal, or the client's number.
  Result<size_t> Submit(TokenizedRequest request);
  size_t MustSubmit(TokenizedRequest request);
  EncodeClient& client(size_t i) { return *clients_[i]; }
  size_t size() const { return clients_.size(); }

  // Before the first round. Its steps take their time on the same clock.
  HarnessDecoder& AddDecoder(const TimingModel& timing, const EngineOptions& options = {});
  void Generate(Request request);

  // Calls `action` when virtual time has come to `at` after the harness was made, be it in the
  // middle of a batch.
  void At(Duration at, std::function<void()> action);
  // Both false when nothing will ever happen again and it did not come true.
  bool RunUntil(const std::function<bool()>& condition);
  bool RunToEnd();  // every encoding done, every action run
  // One round: due actions, one step or a jump to the next event.
  bool RunOnce();

  Duration now() const { return clock_.Now() - start_; }
  TimePoint start() const { return start_; }
  ManualClock& clock() { return clock_; }
  FakeEncoderRunner& runner() { return runner_; }
  EncoderEngine& engine() { return *engine_; }
  DeviceLoop& loop() { return loop_; }
  HarnessDecoder& decoder() { return *decoder_; }
  // Batches begun between two moments.
  int BatchesBetween(TimePoint from, TimePoint to) const;

 private:
  void Advance(Duration by);
  void RunDue();
  void Poll();

  ManualClock clock_;
  const TimePoint start_;
  FakeEncoderRunner runner_;
  DeviceLoop loop_;
  std::vector<std::unique_ptr<EncodeClient>> clients_;  // the engine calls them until it ends
  std::vector<EncodeClient*> open_;
  std::unique_ptr<EncoderEngine> engine_;
  std::unique_ptr<HarnessDecoder> decoder_;
  std::multimap<TimePoint, std::function<void()>> actions_;
};

}  // namespace tutti::engine::testing
