// EngineHarness: an engine over the timing runner under virtual time, with clients that record the
// time of each event. For tests; one thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/testing/fake_model_runner.h"

namespace tutti::engine::testing {

// Everything received for one request.
struct Received {
  std::vector<TokenId> tokens;   // of one choice
  std::vector<TimePoint> times;  // when each was appended
  std::vector<std::optional<api::TokenLogprobs>> logprobs;
  std::string text;
  bool ended = false;
  api::FinishReason reason = api::FinishReason::kStop;
  std::variant<std::monostate, TokenId, std::string> stop_reason;
};

struct HarnessClient {
  api::Generation generation;
  Request request;
  std::vector<Received> choices;
  std::vector<api::StreamEvent> prompt_events;
  TimePoint sent{}, ended_at = TimePoint::max();
  api::Usage usage;
  api::Timings timings;
  bool reads = true;  // false: fetches nothing, so that its backlog grows
  bool done() const { return ended_at != TimePoint::max(); }
  const Status& status() const { return generation.stream().status(); }
  Duration first_token() const { return choices[0].times.front() - sent; }
};

// A second model next to the first, which drafts tokens.
struct DraftSetup {
  FakeModelOptions model;
  TimingModel timing{.base = std::chrono::microseconds(500),
                     .per_decode_row = std::chrono::microseconds(20),
                     .per_prefill_token = std::chrono::microseconds(20)};
};

class EngineHarness {
 public:
  explicit EngineHarness(const EngineOptions& options = {}, const FakeModelOptions& model = {},
                         const TimingModel& timing = {}, bool split_characters = false,
                         const std::atomic<api::LoadLevel>* memory_level = nullptr,
                         const std::optional<DraftSetup>& draft = std::nullopt,
                         kv::PrefixStore* prefixes = nullptr);

  // The refusal, or the client's number.
  Result<size_t> Submit(Request request);
  size_t MustSubmit(Request request);
  HarnessClient& client(size_t i) { return *clients_[i]; }
  // Takes the clients that have ended, in the order of their submission; the numbers of the others
  // change. For runs of so many requests that looking at all of them in every step would be slow.
  std::vector<std::unique_ptr<HarnessClient>> TakeDone();
  size_t size() const { return clients_.size(); }

  // Calls `action` when virtual time has come to `at` after the harness was made.
  void At(Duration at, std::function<void()> action);
  // Steps and moves time until `condition` holds or nothing will ever happen again. False in the
  // latter case.
  bool RunUntil(const std::function<bool()>& condition);
  // Until every client is done and every action has run. False when some never end.
  bool RunToEnd();
  // One round: due actions, one step or a jump to the next event. False when nothing will ever
  // happen again.
  bool RunOnce();

  std::vector<TokenId> Solo(const Request& request, int choice = 0);
  // Runs the request, and all others, to the end and returns the tokens that the model computed
  // meanwhile.
  int64_t TokensComputed(Request request);
  // After all requests: a client without an end, a failed one, an output that is not that of its
  // request alone, a fault that the runner saw, a broken invariant, a block or slot still in use.
  // Empty if there is none.
  std::string FindFault();
  TimePoint start() const { return start_; }
  Duration now() const { return clock_.Now() - start_; }

  ManualClock& clock() { return clock_; }
  TimingRunner& runner() { return runner_; }
  TimingRunner& draft() { return *draft_; }
  Engine& engine() { return *engine_; }
  FakeTokenText& text() { return text_; }
  // Steps in which the model ran, and virtual time between them while work was queued.
  Duration longest_idle_gap() const { return longest_idle_gap_; }

 private:
  void Poll();

  ManualClock clock_;
  TimingRunner runner_;
  std::unique_ptr<TimingRunner> draft_;
  FakeTokenText text_;
  const TimePoint start_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<HarnessClient>> clients_;
  std::multimap<TimePoint, std::function<void()>> actions_;
  Duration longest_idle_gap_{0};
};

// One text after another.
std::vector<TokenId> TextOf(std::vector<TokenId> a, const std::vector<TokenId>& b);
// A prompt of `count` tokens that differs with `from`.
std::vector<TokenId> TestPrompt(int from, int count);
Request TestRequest(std::vector<TokenId> prompt, int max_tokens, double temperature = 0,
                    uint64_t seed = 17);

// `share` of the way through the sorted values: 0.5 the median, 0.99 the P99.
Duration Percentile(std::vector<Duration> values, double share);
// Gaps between the tokens of a choice that arrived at or after `from`.
std::vector<Duration> Gaps(const Received& received, TimePoint from = TimePoint::min(),
                           TimePoint to = TimePoint::max());

}  // namespace tutti::engine::testing
