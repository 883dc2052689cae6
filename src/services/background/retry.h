// RetryPolicy: the retry decision after a failed attempt of a job, a batch line or a webhook
// delivery, and the delay before the next attempt.
//
//                  attempt failed
//                        |
//      kPermanent -------+-------> kFail     final
//      kFailed, kThrottled, no attempts left -> kGiveUp   final
//      kFailed, kThrottled --------> kRetry    again after the backoff; the attempt counts
//      kRefused -------------------> kPutOff   again after a wait; the attempt does not count
//      kStopping ------------------> kRelease  left to the next process; does not count
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"

namespace tutti::background {

// Why an attempt failed, as far as a retry depends on it.
enum class Failure : uint8_t {
  kPermanent,  // another attempt would fail in the same way
  kRefused,    // a transient refusal: nothing was attempted
  kFailed,     // perhaps because of the work itself
  kThrottled,  // like kFailed, but the peer asks for time: the backoff of the step after the next
  kStopping,   // the process is shutting down
};

struct RetryDecision {
  enum class Action : uint8_t { kFail, kGiveUp, kRetry, kPutOff, kRelease };
  Action action = Action::kFail;
  Duration wait{0};  // before the next attempt

  bool again() const { return action >= Action::kRetry; }
  bool counted() const { return action == Action::kRetry; }
};

// Not synchronised.
class RetryPolicy {
 public:
  // `backoff`: delay after the first failed attempt, after the second, ...; the last one repeats;
  // empty: none. Each delay varies by up to `jitter` of it in either direction.
  RetryPolicy(std::vector<Duration> backoff, double jitter);

  // `attempt`: number of the failed attempt, from 1. `retry_after`: the least wait that the peer
  // asks for.
  RetryDecision Decide(Failure failure, int64_t attempt, int64_t max_attempts,
                       std::optional<Duration> retry_after = std::nullopt);

 private:
  Duration Backoff(int64_t attempt);

  const std::vector<Duration> backoff_;
  const double jitter_;
  Random random_;
};

// The error of work whose last attempt ended with its process or worker, so that no other error is
// known.
Status AttemptsExhausted();

// Delay before a write that the store has refused is handed in again.
Duration StoreRetryDelay(const Status& refusal);

}  // namespace tutti::background
