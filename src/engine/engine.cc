#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "api/validate.h"
#include "base/check.h"
#include "engine/decoder_instance.h"
#include "engine/device_loop.h"
#include "engine/policy/wait_estimate.h"

namespace tutti::engine {

struct Engine::Impl {
  Impl(const EngineOptions& options, const EngineDependencies& dependencies, DeviceLoop* outside)
      : clock(*dependencies.clock),
        own_loop(outside == nullptr ? std::make_unique<DeviceLoop>(dependencies.clock) : nullptr),
        loop(outside == nullptr ? own_loop.get() : outside),
        decoder(options, dependencies, loop->signal()) {
    loop->Add(&decoder);
  }

  Duration predicted_wait() const {
    const AdmissionState& ledger = *decoder.ledger();
    return PredictWait(ledger.places.load(), ledger.max_num_seqs,
                       Duration(ledger.service_ns.load()));
  }

  Status CheckPrompt(const Request& request) const;

  const Clock& clock;
  const std::unique_ptr<DeviceLoop> own_loop;
  DeviceLoop* const loop;
  DecoderInstance decoder;
};

Engine::Engine(const EngineOptions& options, const EngineDependencies& dependencies,
               DeviceLoop* loop)
    : impl_(std::make_unique<Impl>(options, dependencies, loop)) {}

Engine::~Engine() {
  impl_->decoder.ledger()->closed.store(true, std::memory_order_release);
  impl_->loop->Remove(&impl_->decoder);
  if (impl_->own_loop != nullptr) impl_->own_loop->Stop();
}

void Engine::Start() {
  CHECK(impl_->own_loop != nullptr) << "an outside loop is started by its owner";
  impl_->own_loop->Start();
}

Result<AdmissionPermit> Engine::Admit(const AdmitRequest& request) {
  const std::shared_ptr<AdmissionState>& ledger = impl_->decoder.ledger();
  if (ledger->draining.load(std::memory_order_acquire)) return Draining();
  const int n = std::max(request.n, 1);
  const int limit = ledger->max_num_seqs + ledger->limits.requests;
  if (n > limit || request.bytes > ledger->limits.bytes) {
    return InvalidArgument("request_exceeds_capacity",
                           "the request counts as " + std::to_string(n) + " requests of " +
                               std::to_string(request.bytes) + " bytes; all together may be " +
                               std::to_string(limit) + " and " +
                               std::to_string(ledger->limits.bytes));
  }
  QueueEntry entry;
  entry.n = n;
  entry.bytes = request.bytes;
  entry.priority = request.priority;
  entry.deadline = request.deadline;
  entry.wait = impl_->predicted_wait();
  return EnterQueue(ledger, impl_->decoder.mailbox(), entry, impl_->clock.Now());
}

Status Engine::Impl::CheckPrompt(const Request& request) const {
  const RunnerLimits& limits = decoder.limits();
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("empty_prompt", "the prompt has no tokens");
  if (request.n < 1 || request.n > api::kMaxChoices)
    return InvalidArgument("invalid_value", "n is out of range").WithParam("n");
  for (const std::vector<TokenId>* tokens : {&request.prompt, &request.prediction}) {
    for (const TokenId id : *tokens) {
      if (id >= 0 && id < limits.vocab_size) continue;
      return InvalidArgument("token_out_of_range", "token id " + std::to_string(id) +
                                                       " is outside the vocabulary of " +
                                                       std::to_string(limits.vocab_size));
    }
  }
  const int64_t asked =
      request.score_only ? 0 : std::max(request.sampling.max_tokens.value_or(1), 1);
  const auto too_long = [&](int64_t limit) {
    std::string message = "the prompt has " + std::to_string(prompt) + " tokens";
    if (request.sampling.max_tokens.has_value())
      message += " and " + std::to_string(asked) + " are asked for";
    return InvalidArgument("context_length_exceeded",
                           message + "; the context holds " + std::to_string(limit));
  };
  if (prompt + asked > limits.context) return too_long(limits.context);
  const int64_t blocks = WorstCaseBlocks(static_cast<int>(prompt + asked));
  if (blocks > limits.kv_blocks) {
    const bool by_prompt = BlocksFor(static_cast<int>(prompt)) > limits.kv_blocks;
    return InvalidArgument(
        "request_exceeds_capacity",
        std::string(by_prompt ? "prompt needs " : "prompt and output need ") +
            std::to_string(by_prompt ? BlocksFor(static_cast<int>(prompt)) : blocks) +
            " KV blocks, pool has " + std::to_string(limits.kv_blocks) +
            "; raise --kv-cache-bytes");
  }
  return OkStatus();
}

Status Engine::Submit(AdmissionPermit permit, Request request,
                      std::shared_ptr<api::TokenStream> stream) {
  CHECK(permit && stream != nullptr);
  AdmissionState& ledger = *impl_->decoder.ledger();
  if (ledger.closed.load(std::memory_order_acquire)) return Draining();
  RETURN_IF_ERROR(impl_->CheckPrompt(request));
  if (request.n != permit.n_) {
    return InvalidArgument("invalid_value", "n differs from what was admitted").WithParam("n");
  }
  if (request.deadline <= impl_->clock.Now()) return DeadlinePassed();
  // An empty queue accepts any prompt that fits the context; the limit is for requests that pile
  // up.
  const auto tokens = static_cast<int64_t>(request.prompt.size());
  const int64_t before = ledger.queued_tokens.fetch_add(tokens, std::memory_order_relaxed);
  const int64_t limit = Allowed(request.priority, ledger.token_limit);
  if (before > 0 && before + tokens > limit) {
    ledger.queued_tokens.fetch_sub(tokens, std::memory_order_relaxed);
    return ledger.Full("the waiting prompts hold " + std::to_string(before) +
                           " tokens, the most allowed is " + std::to_string(limit),
                       impl_->predicted_wait());
  }
  const bool urgent = request.priority == api::Priority::kInteractive;
  permit.tokens_ = tokens;
  permit.submitted_ = true;
  ledger.preparing.fetch_sub(permit.n_, std::memory_order_relaxed);
  impl_->decoder.mailbox()->Submit(
      MakeWork(std::move(permit), std::move(request), std::move(stream), impl_->decoder.limits(),
               impl_->decoder.text(), impl_->decoder.options().scheduler.speculate,
               impl_->decoder.drafts()),
      impl_->clock.Now(), urgent);
  return OkStatus();
}

Result<api::Generation> Engine::Submit(Request request, std::shared_ptr<Waker> waker) {
  AdmitRequest admit;
  admit.n = request.n;
  admit.bytes = request.prompt.size() * sizeof(TokenId);
  admit.priority = request.priority;
  admit.deadline = request.deadline;
  ASSIGN_OR_RETURN(AdmissionPermit permit, Admit(admit));
  auto stream = std::make_shared<api::TokenStream>(std::move(waker));
  std::shared_ptr<RequestControl> control = permit.control();
  RETURN_IF_ERROR(Submit(std::move(permit), std::move(request), stream));
  return api::Generation(std::move(stream), std::move(control));
}

void Engine::BeginDrain() {
  impl_->decoder.ledger()->draining.store(true, std::memory_order_release);
}

bool Engine::draining() const {
  return impl_->decoder.ledger()->draining.load(std::memory_order_acquire);
}

bool Engine::Drain(TimePoint deadline) {
  CHECK(impl_->loop->started()) << "Drain waits for the engine thread";
  return DrainQueue(*impl_->decoder.ledger(), *impl_->loop->signal(), impl_->clock, deadline);
}

bool Engine::RunOneStep() {
  CHECK(!impl_->loop->started()) << "the engine has a thread of its own";
  return impl_->loop->RunOnce();
}

TimePoint Engine::NextWork() const { return impl_->loop->next_work(); }

int Engine::max_model_len() const { return impl_->decoder.max_model_len(); }
bool Engine::proposes() const { return impl_->decoder.options().scheduler.speculate; }
const RunnerLimits& Engine::limits() const { return impl_->decoder.limits(); }
api::LoadSnapshot Engine::Load() const { return impl_->decoder.statistics().Load(); }
EngineStats Engine::stats() const {
  return impl_->decoder.statistics().Snapshot(impl_->clock.Now());
}
Heartbeat Engine::heartbeat() const { return impl_->decoder.statistics().heartbeat(); }

Status Engine::Live() const { return LiveBy(heartbeat(), impl_->clock.Now()); }

DecoderInstance& Engine::decoder_for_test() { return impl_->decoder; }

}  // namespace tutti::engine
