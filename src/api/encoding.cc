#include "api/encoding.h"

#include <memory>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace tutti::api {

namespace {

Result<EncodeResult> Observed(RequestObserver& observer, Result<EncodeResult> result) {
  Usage usage;
  Timings timings;
  if (result.ok()) {
    usage.prompt_tokens = std::accumulate(result->tokens.begin(), result->tokens.end(), 0);
    timings.prepare = result->timings.prepare;
    timings.queue = result->timings.queue;
    timings.prefill = result->timings.inference;
  }
  Status status = observer.End(result.ok() ? OkStatus() : result.status(), usage, timings);
  if (status.ok()) return result;
  return status;
}

}  // namespace

void EncodingState::Finish(Result<EncodeResult> result) {
  CHECK(!result_.has_value());  // one end, whichever path writes it
  if (const auto observer = std::exchange(observer_, nullptr))
    result = Observed(*observer, std::move(result));
  result_.emplace(std::move(result));
  done_.store(true, std::memory_order_release);
}

Result<EncodeResult> EncodingState::Take() {
  CHECK(done());
  if (result_->ok() && finish_ != nullptr) finish_(**result_);
  return std::move(*result_);
}

Encoding::Encoding(std::shared_ptr<EncodingState> state, std::shared_ptr<Cancellable> control)
    : state_(std::move(state)), control_(std::move(control)) {}

Encoding& Encoding::operator=(Encoding&& other) noexcept {
  if (this != &other) {
    Cancel();
    state_ = std::move(other.state_);
    control_ = std::move(other.control_);
  }
  return *this;
}

Encoding::~Encoding() { Cancel(); }

void Encoding::Cancel() {
  if (control_ != nullptr && state_ != nullptr && !state_->done()) control_->Cancel();
}

}  // namespace tutti::api
