#include "api/encoding.h"

#include "base/check.h"

namespace tutti::api {

void EncodingState::Finish(Result<EncodeResult> result) {
  CHECK(!result_.has_value());  // one end, whichever path writes it
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
