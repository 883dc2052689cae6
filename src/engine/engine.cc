#include "engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/validate.h"
#include "base/check.h"
#include "base/clock.h"
#include "engine/decoder_instance.h"

namespace tutti::engine {

namespace {

// Checks a request against the model's limits.
Status CheckPrompt(const Request& request, const RunnerLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("empty_prompt", "the prompt has no tokens");
  if (request.n < 1 || request.n > api::kMaxChoices) return BadValue("n", "n is out of range");
  for (const std::vector<TokenId>* tokens : {&request.prompt, &request.prediction})
    RETURN_IF_ERROR(api::CheckTokens(*tokens, limits.vocab_size, /*param=*/""));
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

}  // namespace

Engine::Engine(const EngineOptions& options, const EngineDependencies& dependencies,
               DeviceLoop* outside)
    : EngineBase(dependencies.clock, outside),
      decoder_(std::make_unique<DecoderInstance>(options, dependencies, loop().signal())),
      store_(dependencies.prefixes) {
  Attach(decoder_.get());
  if (store_ != nullptr) RestorePins();
}

void Engine::RestorePins() {
  for (kv::PinRecord& record : store_->Pins()) {
    if (record.adapter.empty() || record.expires_unix_ms <= UnixMillis()) {
      (void)Restore({std::move(record), nullptr, ""});
    } else {
      const MutexLock lock(pins_mutex_);
      waiting_pins_.push_back(std::move(record));
    }
  }
}

void Engine::RestorePins(const std::shared_ptr<const Adapter>& adapter, const std::string& model) {
  std::vector<kv::PinRecord> records;
  {
    const MutexLock lock(pins_mutex_);
    std::vector<kv::PinRecord> others;
    for (kv::PinRecord& record : waiting_pins_)
      (record.adapter == adapter->digest() ? records : others).push_back(std::move(record));
    waiting_pins_ = std::move(others);
  }
  for (kv::PinRecord& record : records) (void)Restore({std::move(record), adapter, model});
}

// The requests of pins are the waker's users: as each of them ends, others find a place.
class Engine::RestoreMore final : public Waker {
 public:
  explicit RestoreMore(Engine& engine) : engine_(engine) {}
  void Wake() noexcept override { engine_.RestoreLatePins(); }

 private:
  Engine& engine_;  // it ends its streams before it ends
};

Status Engine::Restore(PinToRestore pin) {
  // The record is a file's: its time may be any number.
  constexpr int64_t kMostMs = int64_t{366} * 24 * 3600 * 1000;
  const int64_t now_ms = UnixMillis();
  const int64_t expires_ms = pin.record.expires_unix_ms;
  const int64_t left_ms = expires_ms > now_ms ? std::min(expires_ms, now_ms + kMostMs) - now_ms : 0;
  Request request;
  request.id = pin.record.id;
  request.prompt = pin.record.tokens;
  request.sampling.max_tokens = 0;
  request.score_only = true;
  request.detached = true;
  request.tenant = pin.record.tenant;
  request.cache_salt = pin.record.salt;
  request.adapter = pin.adapter;
  request.pin = {.id = pin.record.id,
                 .ttl = std::chrono::milliseconds(left_ms),
                 .expires_unix_ms = expires_ms,
                 .model = pin.model};
  Status status = left_ms > 0 ? OkStatus() : DeadlinePassed();
  if (status.ok()) {
    Result<AdmissionPermit> permit = Admit({});
    status = permit.ok()
                 ? Submit(*std::move(permit), std::move(request),
                          std::make_shared<api::TokenStream>(std::make_shared<RestoreMore>(*this)))
                 : permit.status();
  }
  if (status.ok()) return status;
  if (left_ms == 0 || status.code() == StatusCode::kInvalidArgument) {
    store_->DropPin(pin.record.id);  // also with other options it would be refused
  } else {
    const MutexLock lock(pins_mutex_);
    late_pins_.push_back(std::move(pin));
  }
  return status;
}

void Engine::RestoreLatePins() {
  std::vector<PinToRestore> pins;
  {
    const MutexLock lock(pins_mutex_);
    pins.swap(late_pins_);
  }
  for (size_t i = 0; i < pins.size(); ++i) {
    const Status status = Restore(std::move(pins[i]));
    if (status.ok() || status.code() != StatusCode::kUnavailable) continue;
    const MutexLock lock(pins_mutex_);
    for (++i; i < pins.size(); ++i) late_pins_.push_back(std::move(pins[i]));
  }
}

Engine::~Engine() { Detach(); }

Result<AdmissionPermit> Engine::Admit(const AdmitRequest& request) {
  const std::shared_ptr<AdmissionState>& admission = decoder_->admission();
  if (admission->draining.load(std::memory_order_acquire)) return RefusedByDrain();
  const int n = std::max(request.n, 1);
  const int limit = admission->max_num_seqs + admission->limits.requests;
  if (n > limit || request.bytes > admission->limits.bytes) {
    return InvalidArgument("request_exceeds_capacity",
                           "the request counts as " + std::to_string(n) + " requests of " +
                               std::to_string(request.bytes) + " bytes; all together may be " +
                               std::to_string(limit) + " and " +
                               std::to_string(admission->limits.bytes));
  }
  QueueEntry entry;
  entry.n = n;
  entry.bytes = request.bytes;
  entry.priority = request.priority;
  entry.deadline = request.deadline;
  entry.wait = decoder_->PredictedWait();
  return EnterQueue(admission, decoder_->mailbox(), entry, clock().Now());
}

Status Engine::Submit(AdmissionPermit permit, Request request,
                      std::shared_ptr<api::TokenStream> stream) {
  CHECK(permit && stream != nullptr);
  AdmissionState& admission = *decoder_->admission();
  if (admission.closed.load(std::memory_order_acquire)) return RefusedByDrain();
  RETURN_IF_ERROR(CheckPrompt(request, decoder_->limits()));
  if (request.pin) {
    if (request.prompt.size() <= kBlockTokens || !request.use_prefix_cache) {
      return BadValue("prompt", "a prefix needs " + std::to_string(kBlockTokens + 1) +
                                    " tokens and the prefix cache to be pinned; it has " +
                                    std::to_string(request.prompt.size()) + " tokens");
    }
    RETURN_IF_ERROR(
        decoder_->pins().CheckRoom(request.tenant, static_cast<int>(request.prompt.size())));
  }
  if (request.n != permit.n_) {
    return BadValue("n", "n differs from what was admitted");
  }
  if (request.deadline <= clock().Now()) return DeadlinePassed();
  const auto tokens = static_cast<int64_t>(request.prompt.size());
  RETURN_IF_ERROR(
      admission.ReserveTokens(request.priority, tokens, "prompts", decoder_->PredictedWait()));
  const bool urgent = request.priority == api::Priority::kInteractive;
  permit.tokens_ = tokens;
  permit.submitted_ = true;
  admission.preparing.fetch_sub(permit.n_, std::memory_order_relaxed);
  decoder_->mailbox()->Submit(
      MakeRequestState(std::move(permit), std::move(request), std::move(stream), decoder_->limits(),
                       decoder_->text(), decoder_->options().scheduler.speculate,
                       decoder_->drafts()),
      clock().Now(), urgent);
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

std::vector<api::PinnedPrefix> Engine::Pins(const std::string& tenant) const {
  return decoder_->pins().List(tenant);
}
bool Engine::Unpin(const std::string& tenant, const std::string& id) {
  if (decoder_->pins().Remove(tenant, id)) return true;
  const MutexLock lock(pins_mutex_);
  const auto is_it = [&](const kv::PinRecord& record) {
    return record.tenant == tenant && record.id == id;
  };
  const size_t waiting =
      std::erase_if(waiting_pins_, is_it) +
      std::erase_if(late_pins_, [&](const PinToRestore& pin) { return is_it(pin.record); });
  if (waiting > 0) store_->DropPin(id);
  return waiting > 0;
}

int Engine::max_model_len() const { return decoder_->max_model_len(); }
bool Engine::speculates() const { return decoder_->options().scheduler.speculate; }
const RunnerLimits& Engine::limits() const { return decoder_->limits(); }
api::LoadSnapshot Engine::Load() const { return decoder_->statistics().Load(); }
EngineStats Engine::stats() const { return decoder_->statistics().Snapshot(clock().Now()); }

DecoderInstance& Engine::decoder_for_test() { return *decoder_; }

}  // namespace tutti::engine
