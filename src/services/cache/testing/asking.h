// Asking: the gateway's role in front of a cache, for tests. Requests have token prompts, and the
// test writes the answers as the engine would.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/answer_cache.h"
#include "api/caller.h"
#include "api/token_stream.h"
#include "services/cache/exact_cache.h"

namespace tutti::cache::testing {

class CountingControl final : public api::Cancellable {
 public:
  void Cancel() noexcept override { cancelled.store(true); }
  std::atomic<bool> cancelled{false};
};

class CountingWaker final : public Waker {
 public:
  void Wake() noexcept override { ++wakes; }
  std::atomic<int> wakes{0};
};

// Calls that a request's observer received.
struct Told {
  int first_tokens = 0, ends = 0;
  Status status;
  api::Usage usage;
};
class TellingObserver final : public api::RequestObserver {
 public:
  explicit TellingObserver(std::shared_ptr<Told> told) : told_(std::move(told)) {}
  void FirstToken() noexcept override { ++told_->first_tokens; }
  Status End(Status status, const api::Usage& usage, const api::Timings&) noexcept override {
    ++told_->ends;
    told_->status = status;
    told_->usage = usage;
    return status;
  }

 private:
  const std::shared_ptr<Told> told_;
};

// Greedy, of one tenant.
inline api::GenerateRequest Greedy(const std::string& tenant = "t") {
  api::GenerateRequest request;
  request.tenant = tenant;
  request.sampling.temperature = 0;
  return request;
}

// One request, from acceptance on.
struct Asked {
  std::shared_ptr<api::CachedAnswer> part;
  api::Generation generation;
  std::shared_ptr<api::TokenStream> written;  // null: it comes from elsewhere
  std::shared_ptr<CountingControl> control = std::make_shared<CountingControl>();
  std::shared_ptr<CountingWaker> waker = std::make_shared<CountingWaker>();
  std::shared_ptr<api::CacheReport> report = std::make_shared<api::CacheReport>();
  std::shared_ptr<Told> told = std::make_shared<Told>();

  api::CacheOutcome outcome() const { return report->outcome(); }
};

// What the gateway adds to a request.
struct AskedOf {
  std::vector<TokenId> prompt = {1, 2, 3};
  uint64_t instance = 1;
  std::string identity = {};
  bool may_wait = false;
};
inline Asked AskWith(ExactCache& cache, api::GenerateRequest request, const AskedOf& of) {
  Asked asked;
  request.cache_report = asked.report;
  request.observer = std::make_shared<TellingObserver>(asked.told);
  asked.part = cache.Open(&request, asked.waker, asked.control);
  if (asked.part == nullptr) return asked;
  asked.generation = api::Generation(asked.part->stream(), asked.part, asked.part);
  api::ModelInfo model;
  model.id = "m";
  model.digest = "d";
  asked.written = asked.part->Resolve({.request = request,
                                       .prompt = of.prompt,
                                       .model = model,
                                       .model_instance = of.instance,
                                       .model_identity = of.identity,
                                       .may_wait = of.may_wait});
  return asked;
}
inline Asked Ask(ExactCache& cache, api::GenerateRequest request,
                 const std::vector<TokenId>& prompt = {1, 2, 3}, uint64_t instance = 1) {
  return AskWith(cache, std::move(request), {.prompt = prompt, .instance = instance});
}

inline void Write(api::TokenStream& log, const std::string& text) {
  api::StreamEvent token;
  token.kind = api::StreamEvent::Kind::kToken;
  token.text = text;
  api::TokenLogprobs logprobs;
  logprobs.chosen = {7, -0.25f, text, false};
  logprobs.top.push_back(logprobs.chosen);
  token.logprobs = std::move(logprobs);
  log.Append(std::move(token));
  if (log.waker() != nullptr) log.waker()->Wake();
}
inline void Start(api::TokenStream& log) {
  api::StreamEvent started;
  started.kind = api::StreamEvent::Kind::kStarted;
  started.usage = {3, 1, 0};
  log.Append(std::move(started));
}
inline void End(api::TokenStream& log, int tokens, Status status = OkStatus()) {
  if (status.ok()) {
    api::StreamEvent end;
    end.kind = api::StreamEvent::Kind::kChoiceEnd;
    end.finish_reason = api::FinishReason::kLength;
    log.Append(std::move(end));
  }
  api::Timings timings;
  timings.prefill = std::chrono::milliseconds(5);
  log.Finish(std::move(status), {3, 1, tokens}, timings);
  if (log.waker() != nullptr) log.waker()->Wake();
}
inline void Answer(api::TokenStream& log, const std::vector<std::string>& tokens) {
  Start(log);
  for (const std::string& token : tokens) Write(log, token);
  End(log, static_cast<int>(tokens.size()));
}

// The events that a reader got, as one string; "!code" for a failure, "..." if there is no end yet.
inline std::string ReadAll(api::Generation& generation, api::Usage* usage = nullptr) {
  std::string all;
  while (const api::StreamEvent* event = generation.Next()) {
    all += event->text;
    generation.Consumed(event->text.size());
    if (event->kind != api::StreamEvent::Kind::kEnd) continue;
    if (usage != nullptr) *usage = event->usage;
    const Status& status = generation.stream().status();
    return status.ok() ? all : all + "!" + status.reason();
  }
  return all + "...";
}

}  // namespace tutti::cache::testing
