#include "engine/encoder_engine.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/encoder_instance.h"

namespace tutti::engine {
namespace {

std::string Input(size_t index) { return "input " + std::to_string(index); }

// Checks a request's tokens against the model's limits.
Status CheckRequest(const TokenizedRequest& request, const EncoderLimits& limits) {
  const size_t items = request.lengths.size();
  if (items == 0 || items > static_cast<size_t>(api::kMaxEncodeInputs)) {
    return InvalidArgument("invalid_value",
                           "there are " + std::to_string(items) + " inputs; 1 to " +
                               std::to_string(api::kMaxEncodeInputs) + " are allowed");
  }
  const bool scores = request.output == api::EncodeOutput::kScores;
  if (limits.of(request.output) == 0) {
    return InvalidArgument("unsupported_parameter",
                           scores ? "the model gives no scores" : "the model gives no vectors");
  }
  size_t first = 0;
  for (size_t i = 0; i < items; ++i) {
    const int32_t length = request.lengths[i];
    if (length <= 0) return InvalidArgument("empty_prompt", Input(i) + " has no tokens");
    if (length > limits.max_item_tokens) {
      return InvalidArgument("context_length_exceeded", Input(i) + " has " +
                                                            std::to_string(length) +
                                                            " tokens; the model reads " +
                                                            std::to_string(limits.max_item_tokens));
    }
    const size_t end = first + static_cast<size_t>(length);
    if (end > request.tokens.size()) break;
    for (size_t t = first; t < end; ++t) {
      if (request.tokens[t] >= 0 && request.tokens[t] < limits.vocab_size) continue;
      return InvalidArgument("token_out_of_range", Input(i) + ": token id " +
                                                       std::to_string(request.tokens[t]) +
                                                       " is outside the vocabulary of " +
                                                       std::to_string(limits.vocab_size));
    }
    first = end;
  }
  const auto known_type = [&](uint8_t type) { return type < limits.types; };
  const bool whole = std::accumulate(request.lengths.begin(), request.lengths.end(), int64_t{0}) ==
                     static_cast<int64_t>(request.tokens.size());
  if (!whole || (!request.types.empty() && request.types.size() != request.tokens.size()))
    return Internal("the lengths of the inputs are not those of their tokens");
  if (!std::all_of(request.types.begin(), request.types.end(), known_type)) {
    return InvalidArgument("unsupported_parameter", "the model reads no pairs");
  }
  return OkStatus();
}

}  // namespace

EncoderEngine::EncoderEngine(const EncoderOptions& options, const EncoderDependencies& dependencies,
                             DeviceLoop* outside)
    : EngineBase(dependencies.clock, outside),
      encoder_(std::make_unique<EncoderInstance>(options, dependencies, loop().signal())) {
  Attach(encoder_.get());
}

EncoderEngine::~EncoderEngine() { Detach(); }

// Predicted queueing time of a request that arrives now. A `small` request waits only for other
// small ones, which get each batch except `bulk_share` of it.
Duration EncoderEngine::PredictedWait(bool small) const {
  if (!small) return encoder_->PredictedWait();
  const AdmissionState& admission = *encoder_->admission();
  const int64_t all = admission.queued_tokens.load(), ahead = admission.small_tokens.load();
  const auto slowed = static_cast<int64_t>(static_cast<double>(ahead) /
                                           std::max(1 - encoder_->options().bulk_share, 0.1));
  return PredictEncodeWait(std::min(slowed, all), Duration(admission.service_ns.load()));
}

Result<AdmissionPermit> EncoderEngine::Admit(const AdmitEncoding& request) {
  const std::shared_ptr<AdmissionState>& admission = encoder_->admission();
  if (admission->draining.load(std::memory_order_acquire)) return RefusedByDrain();
  if (request.items > admission->item_limit || request.bytes > admission->limits.bytes) {
    return InvalidArgument("request_exceeds_capacity",
                           "the request has " + std::to_string(request.items) + " inputs and " +
                               std::to_string(request.bytes) + " bytes; the queue holds " +
                               std::to_string(admission->item_limit) + " and " +
                               std::to_string(admission->limits.bytes));
  }
  QueueEntry entry;
  entry.items = std::max(request.items, 1);
  entry.bytes = request.bytes;
  entry.priority = request.priority;
  entry.deadline = request.deadline;
  entry.wait = PredictedWait(request.priority == api::Priority::kInteractive &&
                             request.items <= encoder_->options().small_items);
  return EnterQueue(admission, encoder_->mailbox(), entry, clock().Now());
}

Status EncoderEngine::ReserveResult(AdmissionState& admission, api::Priority priority,
                                    int64_t bytes) const {
  if (bytes > admission.result_limit) {
    return InvalidArgument("request_exceeds_capacity", "the result would take " +
                                                           std::to_string(bytes) +
                                                           " bytes, the most allowed is " +
                                                           std::to_string(admission.result_limit));
  }
  const int64_t before = admission.result_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const int64_t limit = Allowed(priority, admission.result_limit);
  if (before == 0 || before + bytes <= limit) return OkStatus();
  admission.result_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  return admission.Full("the results of the waiting requests will take " + std::to_string(before) +
                            " bytes, " + std::to_string(bytes) + " more would pass the limit of " +
                            std::to_string(limit),
                        PredictedWait(false));
}

Status EncoderEngine::Submit(AdmissionPermit permit, TokenizedRequest request,
                             std::shared_ptr<api::EncodingState> state) {
  CHECK(permit && state != nullptr);
  AdmissionState& admission = *encoder_->admission();
  if (admission.closed.load(std::memory_order_acquire)) return RefusedByDrain();
  const EncoderLimits& limits = encoder_->limits();
  RETURN_IF_ERROR(CheckRequest(request, limits));
  if (static_cast<int64_t>(request.lengths.size()) > permit.items_)
    return Internal("the request has more inputs than were admitted");
  const TimePoint now = clock().Now();
  if (request.deadline <= now) return DeadlinePassed();
  // From here on the permit's destructor returns its places, on every path.
  const auto bytes = ResultFloats(request, limits) * static_cast<int64_t>(sizeof(float));
  RETURN_IF_ERROR(ReserveResult(admission, request.priority, bytes));
  permit.result_bytes_ = bytes;
  const auto tokens = static_cast<int64_t>(request.tokens.size());
  RETURN_IF_ERROR(
      admission.ReserveTokens(request.priority, tokens, "inputs", encoder_->PredictedWait()));
  const bool small = IsSmall(request, encoder_->options());
  permit.HoldTokens(tokens, small);
  auto work = MakeEncodeRequestState(std::move(permit), std::move(request), std::move(state),
                                     limits, small, now);
  work->permit.submitted_ = true;
  admission.preparing.fetch_sub(1, std::memory_order_relaxed);
  encoder_->mailbox()->Submit(std::move(work), now);
  return OkStatus();
}

Result<api::Encoding> EncoderEngine::Submit(TokenizedRequest request,
                                            std::shared_ptr<Waker> waker) {
  AdmitEncoding admit;
  admit.items = static_cast<int>(std::min<size_t>(request.lengths.size(), INT32_MAX));
  admit.bytes = request.tokens.size() * sizeof(TokenId);
  admit.priority = request.priority;
  admit.deadline = request.deadline;
  ASSIGN_OR_RETURN(AdmissionPermit permit, Admit(admit));
  auto state = std::make_shared<api::EncodingState>(std::move(waker));
  std::shared_ptr<RequestControl> control = permit.control();
  RETURN_IF_ERROR(Submit(std::move(permit), std::move(request), state));
  return api::Encoding(std::move(state), std::move(control));
}

const EncoderLimits& EncoderEngine::limits() const { return encoder_->limits(); }
EncoderStats EncoderEngine::stats() const { return encoder_->statistics().Snapshot(clock().Now()); }

EncoderInstance& EncoderEngine::encoder_for_test() { return *encoder_; }

}  // namespace tutti::engine
