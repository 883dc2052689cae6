// AdmissionState: admission counts of one model instance's bounded queue, from acceptance to a
// request's last event, and the operations of Engine and EncoderEngine on it: admission, refusal,
// draining.
//
// Shared by the engine, its permits and the instance; any thread. All counts are atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/types.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/mailbox.h"
#include "engine/options.h"
#include "engine/request.h"

namespace tutti::engine {

struct AdmissionState {
  // --- set before it is shared ---
  QueueLimits limits;
  int max_num_seqs = 0;  // of a decoder; an encoder has none: places = limits.requests
  int64_t token_limit = 0, item_limit = 0, result_limit = 0;
  const std::atomic<api::LoadLevel>* memory_level = nullptr;  // of the process; null = green

  std::atomic<int> unfinished{0};        // choices of accepted requests that have not ended
  std::atomic<int> places{0};            // of those, without the requests that were set aside
  std::atomic<int> aside{0};             // requests set aside: paused for their readers
  std::atomic<int> preparing{0};         // of `unfinished`, not submitted yet
  std::atomic<int64_t> queued_bytes{0};  // of requests that never ran
  std::atomic<int64_t> queued_tokens{0};
  std::atomic<int64_t> small_tokens{0};  // encoders: of these, of requests that go ahead of others
  std::atomic<int64_t> items{0};         // encoders: inputs of requests that have not ended
  std::atomic<int64_t> result_bytes{0};  // encoders: memory for the results of these
  std::atomic<int64_t> service_ns{0};    // mean time a sequence runs, or 1,024 tokens of an
                                         // encoder take; written by the engine
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> salt{0};
  std::atomic<bool> draining{false};
  std::atomic<bool> closed{false};  // the engine takes nothing more, not even what was accepted
  std::atomic<int64_t> drain_deadline_ns{INT64_MAX};
  Mutex mutex;
  CondVar idle;  // notified when `unfinished` falls to 0

  // Takes places while `places + n <= limit` holds.
  bool TryEnter(int n, int limit);
  // Frees the places of a request that is paused for its reader; false when too many requests are
  // set aside already. StepBack takes the places again even if the queue was filled meanwhile:
  // `places` may exceed its limit by those of requests set aside. Both on the engine thread.
  bool TryStepAside(int n, int limit);
  void StepBack(int n);
  void Leave(int n, bool was_aside);
  // Makes and counts the error of a request that is not accepted; `wait` becomes its retry-after
  // time.
  Status Refuse(std::string_view reason, const std::string& what, Duration wait);
  Status Full(const std::string& what, Duration wait) { return Refuse("queue_full", what, wait); }
  // Takes room for the tokens of a request's `what`; the permit gives it back. Error: queue_full.
  Status ReserveTokens(api::Priority priority, int64_t tokens, std::string_view what,
                       Duration wait);
  // The load level of the process's memory or of the fullest bound of the queue, whichever is
  // worse.
  api::LoadLevel Level() const;
};

// Part of `bound` that requests of a priority class may fill: lower classes leave the rest to
// interactive requests.
int64_t Allowed(api::Priority priority, int64_t bound);

// Facts about a request at admission.
struct QueueEntry {
  int n = 1;      // places
  int items = 0;  // inputs of an encoding
  size_t bytes = 0;
  api::Priority priority = api::Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
  Duration wait{0};  // predicted for it
};

// Takes places in the queue for a request. Errors: deadline_exceeded, overloaded (the predicted
// wait exceeds its deadline, or the process's memory is short for its class), queue_full in bytes,
// items or places.
Result<AdmissionPermit> EnterQueue(const std::shared_ptr<AdmissionState>& admission,
                                   const std::shared_ptr<Mailbox>& mailbox, const QueueEntry& entry,
                                   TimePoint now);

Status RefusedByDrain();   // for requests that arrive during a drain
Status DeadlinePassed();   // for requests whose deadline passed before they were served
Status DrainedUnserved();  // for requests left at the deadline of a drain

// Refuses new requests, then waits until all have ended or `deadline` has passed on `clock`; the
// slot then ends the remaining requests (drain_deadline_ns). True when all ended by themselves. Not
// to be called on the engine thread, which must be running.
bool DrainQueue(AdmissionState& admission, Signal& signal, const Clock& clock, TimePoint deadline);

}  // namespace tutti::engine
