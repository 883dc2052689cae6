#include "services/background/retry.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/random.h"

namespace tutti::background {
namespace {

using Action = RetryDecision::Action;

constexpr Duration kRefusalWait = std::chrono::seconds(1);  // where a refusal names no time itself

}  // namespace

RetryPolicy::RetryPolicy(std::vector<Duration> backoff, double jitter)
    : backoff_(std::move(backoff)), jitter_(jitter), random_(static_cast<uint64_t>(NewSeed())) {}

RetryDecision RetryPolicy::Decide(Failure failure, int64_t attempt, int64_t max_attempts,
                                  std::optional<Duration> retry_after) {
  const Duration asked = retry_after.value_or(Duration(0));
  switch (failure) {
    case Failure::kPermanent:
      break;
    case Failure::kRefused:
      return {Action::kPutOff, std::max(kRefusalWait, asked)};
    case Failure::kFailed:
    case Failure::kThrottled:
      if (attempt >= max_attempts) return {Action::kGiveUp};
      return {Action::kRetry,
              std::max(Backoff(failure == Failure::kThrottled ? attempt + 1 : attempt), asked)};
    case Failure::kStopping:
      return {Action::kRelease};
  }
  return {Action::kFail};
}

Duration RetryPolicy::Backoff(int64_t attempt) {
  if (backoff_.empty()) return Duration(0);
  const int64_t step = std::clamp<int64_t>(attempt - 1, 0, std::ssize(backoff_) - 1);
  const double factor = 1 - jitter_ + 2 * jitter_ * random_.Uniform();
  return std::chrono::duration_cast<Duration>(backoff_[static_cast<size_t>(step)] * factor);
}

Status AttemptsExhausted() {
  return Status(StatusCode::kInternal, "attempts_exhausted",
                "each attempt ended with the process or the worker that made it");
}

// "overloaded": the disk is behind, and the store takes writes again in a moment. Other errors, as
// of a full disk, last longer.
Duration StoreRetryDelay(const Status& refusal) {
  return refusal.reason() == "overloaded" ? Duration(std::chrono::milliseconds(50))
                                          : Duration(std::chrono::seconds(1));
}

}  // namespace tutti::background
