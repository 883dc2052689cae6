#include "engine/testing/engine_harness.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "engine/decoder_instance.h"
#include "engine/invariants.h"

namespace tutti::engine::testing {

EngineHarness::EngineHarness(const EngineOptions& options, const FakeModelOptions& model,
                             const TimingModel& timing, bool split_characters,
                             const std::atomic<api::LoadLevel>* memory_level,
                             const std::optional<DraftSetup>& draft, kv::PrefixStore* prefixes)
    : runner_(model, timing, &clock_), text_(split_characters), start_(clock_.Now()) {
  if (draft.has_value())
    draft_ = std::make_unique<TimingRunner>(draft->model, draft->timing, &clock_);
  engine_ = std::make_unique<Engine>(options, EngineDependencies{.runner = &runner_,
                                                                 .text = &text_,
                                                                 .clock = &clock_,
                                                                 .memory_level = memory_level,
                                                                 .draft = draft_.get(),
                                                                 .prefixes = prefixes});
}

Result<size_t> EngineHarness::Submit(Request request) {
  auto client = std::make_unique<HarnessClient>();
  client->request = request;
  client->choices.resize(static_cast<size_t>(request.n));
  client->sent = clock_.Now();
  ASSIGN_OR_RETURN(client->generation, engine_->Submit(std::move(request), nullptr));
  clients_.push_back(std::move(client));
  return clients_.size() - 1;
}

size_t EngineHarness::MustSubmit(Request request) {
  Result<size_t> index = Submit(std::move(request));
  CHECK(index.ok()) << index.status();
  return *index;
}

std::vector<std::unique_ptr<HarnessClient>> EngineHarness::TakeDone() {
  const auto begin = std::stable_partition(clients_.begin(), clients_.end(),
                                           [](const auto& client) { return !client->done(); });
  std::vector<std::unique_ptr<HarnessClient>> done(std::make_move_iterator(begin),
                                                   std::make_move_iterator(clients_.end()));
  clients_.erase(begin, clients_.end());
  return done;
}

void EngineHarness::At(Duration at, std::function<void()> action) {
  actions_.emplace(start_ + at, std::move(action));
}

void EngineHarness::Poll() {
  for (const auto& client : clients_) {
    if (!client->reads) {
      if (client->generation.stream().ended() && !client->done()) client->ended_at = clock_.Now();
      continue;
    }
    while (const api::StreamEvent* e = client->generation.Next()) {
      using Kind = api::StreamEvent::Kind;
      Received& choice = client->choices[static_cast<size_t>(e->choice)];
      choice.text += e->text;
      client->generation.Consumed(e->text.size());
      switch (e->kind) {
        case Kind::kStarted:
          break;
        case Kind::kPromptToken:
          choice.text.resize(choice.text.size() - e->text.size());
          client->prompt_events.push_back(*e);
          break;
        case Kind::kToken:
          choice.tokens.push_back(e->token);
          choice.times.push_back(clock_.Now());
          choice.logprobs.push_back(e->logprobs);
          break;
        case Kind::kChoiceEnd:
          choice.ended = true;
          choice.reason = e->finish_reason;
          choice.stop_reason = e->stop_reason;
          break;
        case Kind::kEnd:
          client->ended_at = clock_.Now();
          client->usage = e->usage;
          client->timings = e->timings;
          break;
      }
    }
  }
}

bool EngineHarness::RunOnce() {
  while (!actions_.empty() && actions_.begin()->first <= clock_.Now()) {
    const std::function<void()> action = std::move(actions_.begin()->second);
    actions_.erase(actions_.begin());
    action();
  }
  const TimePoint before = clock_.Now();
  const bool ran = engine_->RunOneStep();
  Poll();
  if (ran) return true;
  TimePoint next = engine_->NextWork();
  if (!actions_.empty()) next = std::min(next, actions_.begin()->first);
  const bool waiting = engine_->stats().waiting_capacity > 0;
  if (next == TimePoint::max()) return false;
  clock_.Advance(std::max(next - clock_.Now(), Duration(1)));
  if (waiting) longest_idle_gap_ = std::max(longest_idle_gap_, clock_.Now() - before);
  return true;
}

bool EngineHarness::RunUntil(const std::function<bool()>& condition) {
  for (int round = 0; round < 10'000'000; ++round) {
    if (condition()) return true;
    if (!RunOnce()) return condition();
  }
  return false;
}

bool EngineHarness::RunToEnd() {
  return RunUntil([this] {
    return actions_.empty() &&
           std::all_of(clients_.begin(), clients_.end(), [](const auto& c) { return c->done(); });
  });
}

std::vector<TokenId> EngineHarness::Solo(const Request& request, int choice) {
  sampling::RowState state;
  state.params = &request.sampling;
  state.seed = request.seed;
  state.stream = static_cast<uint32_t>(choice);
  std::vector<TokenId> ends = request.sampling.stop_token_ids;
  if (!request.sampling.ignore_eos)
    ends.insert(ends.end(), request.end_tokens.begin(), request.end_tokens.end());
  state.end_tokens = ends;
  return runner_.Solo(request.prompt, state, request.sampling.max_tokens.value_or(0), ends,
                      request.adapter.get());
}

int64_t EngineHarness::TokensComputed(Request request) {
  const uint64_t before = runner_.tokens_computed();
  MustSubmit(std::move(request));
  CHECK(RunToEnd());
  return static_cast<int64_t>(runner_.tokens_computed() - before);
}

std::string EngineHarness::FindFault() {
  for (size_t i = 0; i < size(); ++i) {
    const HarnessClient& c = client(i);
    const std::string who = "client " + std::to_string(i);
    if (!c.done()) return who + " has no end";
    if (!c.status().ok()) return who + ": " + c.status().message();
    for (int k = 0; k < c.request.n; ++k) {
      if (c.choices[static_cast<size_t>(k)].tokens != Solo(c.request, k))
        return who + " has another output than alone";
    }
  }
  if (!runner_.violations().empty()) return runner_.violations().front();
  EngineSnapshot snapshot;
  TakeSnapshot(engine_->decoder_for_test(), &snapshot);
  if (std::string why = FindViolation(snapshot); !why.empty()) return why;
  if (snapshot.active != 0) return "blocks are still in use";
  if (snapshot.states_active != 0) return "states are still in use";
  if (snapshot.window_blocks_active != 0) return "blocks of windows are still in use";
  return "";
}

std::vector<TokenId> TextOf(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<TokenId> TestPrompt(int from, int count) {
  std::vector<TokenId> tokens;
  uint32_t x = static_cast<uint32_t>(from) * 2654435761u + 12345;
  for (int i = 0; i < count; ++i) {
    x = x * 1664525u + 1013904223u;
    tokens.push_back(1 + static_cast<TokenId>((x >> 16) % 60));
  }
  return tokens;
}

Request TestRequest(std::vector<TokenId> prompt, int max_tokens, double temperature,
                    uint64_t seed) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = temperature;
  request.seed = seed;
  return request;
}

Duration Percentile(std::vector<Duration> values, double share) {
  if (values.empty()) return Duration(0);
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(at, 1, values.size()) - 1];
}

std::vector<Duration> Gaps(const Received& received, TimePoint from, TimePoint to) {
  std::vector<Duration> gaps;
  for (size_t i = 1; i < received.times.size(); ++i) {
    if (received.times[i] >= from && received.times[i] <= to)
      gaps.push_back(received.times[i] - received.times[i - 1]);
  }
  return gaps;
}

}  // namespace tutti::engine::testing
