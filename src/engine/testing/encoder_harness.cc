#include "engine/testing/encoder_harness.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::engine::testing {
namespace {

struct CountWakes final : Waker {
  explicit CountWakes(int* count) : count_(*count) {}
  void Wake() noexcept override { ++count_; }
  int& count_;
};

FakeModelOptions LargePool() {
  FakeModelOptions model;
  model.limits.kv_blocks = 1024;
  model.sample_rows = false;
  return model;
}

}  // namespace

HarnessDecoder::HarnessDecoder(const EngineOptions& options, const Clock& clock, DeviceLoop& loop)
    : runner(LargePool()) {
  engine = std::make_unique<Engine>(options, EngineDependencies{&runner, &text, &clock}, &loop);
}

EncoderHarness::EncoderHarness(const EncoderOptions& options, const EncodeTimingModel& timing,
                               const EncoderLimits& limits)
    : start_(clock_.Now()), runner_(limits, &clock_), loop_(&clock_) {
  runner_.time = [this, timing](const EncodeBatch& batch) {
    Advance(timing.TimeOf(batch));
    return Duration(0);
  };
  engine_ =
      std::make_unique<EncoderEngine>(options, EncoderDependencies{&runner_, &clock_}, &loop_);
}

HarnessDecoder& EncoderHarness::AddDecoder(const TimingModel& timing,
                                           const EngineOptions& options) {
  decoder_ = std::make_unique<HarnessDecoder>(options, clock_, loop_);
  decoder_->runner.step_time = [this, timing](const StepPlan& plan) {
    const Duration took = timing.TimeOf(plan);
    Advance(took);
    return took;
  };
  return *decoder_;
}

void EncoderHarness::Generate(Request request) {
  Result<api::Generation> generation = decoder_->engine->Submit(std::move(request), nullptr);
  CHECK(generation.ok()) << generation.status();
  decoder_->streams.push_back({*std::move(generation), {}});
}

Result<size_t> EncoderHarness::Submit(TokenizedRequest request) {
  auto client = std::make_unique<EncodeClient>();
  client->request = request;
  client->sent = clock_.Now();
  ASSIGN_OR_RETURN(client->encoding, engine_->Submit(std::move(request),
                                                     std::make_shared<CountWakes>(&client->wakes)));
  open_.push_back(client.get());
  clients_.push_back(std::move(client));
  return clients_.size() - 1;
}

size_t EncoderHarness::MustSubmit(TokenizedRequest request) {
  Result<size_t> index = Submit(std::move(request));
  CHECK(index.ok()) << index.status();
  return *index;
}

void EncoderHarness::At(Duration at, std::function<void()> action) {
  actions_.emplace(start_ + at, std::move(action));
}

void EncoderHarness::RunDue() {
  while (!actions_.empty() && actions_.begin()->first <= clock_.Now()) {
    const std::function<void()> action = std::move(actions_.begin()->second);
    actions_.erase(actions_.begin());
    action();
  }
}

void EncoderHarness::Advance(Duration by) {
  const TimePoint end = clock_.Now() + by;
  while (!actions_.empty() && actions_.begin()->first <= end) {
    clock_.Advance(std::max(actions_.begin()->first - clock_.Now(), Duration(0)));
    RunDue();
  }
  clock_.Advance(end - clock_.Now());
}

void EncoderHarness::Poll() {
  std::vector<std::function<void()>> then;
  std::erase_if(open_, [&](EncodeClient* client) {
    if (client->encoding.has_value()) {
      if (!client->encoding->done()) return false;
      client->result.emplace(client->encoding->Take());
    }
    client->ended_at = clock_.Now();
    if (client->then) then.push_back(std::exchange(client->then, nullptr));
    return true;
  });
  for (const std::function<void()>& action : then) action();
  if (decoder_ == nullptr) return;
  for (HarnessDecoder::Stream& stream : decoder_->streams) {
    while (const api::StreamEvent* event = stream.generation.Next()) {
      stream.generation.Consumed(event->text.size());
      if (event->kind != api::StreamEvent::Kind::kToken) continue;
      stream.received.tokens.push_back(event->token);
      stream.received.times.push_back(clock_.Now());
    }
  }
}

bool EncoderHarness::RunOnce() {
  RunDue();
  const bool ran = loop_.RunOnce();
  Poll();
  if (ran) return true;
  TimePoint next = loop_.next_work();
  if (!actions_.empty()) next = std::min(next, actions_.begin()->first);
  if (next == TimePoint::max()) return false;
  Advance(std::max(next - clock_.Now(), Duration(1)));
  return true;
}

bool EncoderHarness::RunUntil(const std::function<bool()>& condition) {
  for (int round = 0; round < 10'000'000; ++round) {
    if (condition()) return true;
    if (!RunOnce()) return condition();
  }
  return false;
}

bool EncoderHarness::RunToEnd() {
  return RunUntil([this] { return actions_.empty() && open_.empty(); });
}

int EncoderHarness::BatchesBetween(TimePoint from, TimePoint to) const {
  return static_cast<int>(
      std::count_if(runner_.batches().begin(), runner_.batches().end(),
                    [&](const BatchTrace& b) { return b.begin >= from && b.begin < to; }));
}

}  // namespace tutti::engine::testing
