#include "engine/admission_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/policy/admission.h"

namespace tutti::engine {
namespace {

// Text for a refusal: the part of a limit that a priority class may fill.
std::string Bound(api::Priority priority, int64_t bound) {
  const std::string text = std::to_string(Allowed(priority, bound));
  return priority == api::Priority::kInteractive ? text : text + " for requests of this class";
}

}  // namespace

Status RefusedByDrain() {
  return Unavailable("draining", "the server is shutting down and takes no new requests");
}

Status DeadlinePassed() {
  return {StatusCode::kDeadlineExceeded, "deadline_exceeded", "the request's deadline has passed"};
}

Status DrainedUnserved() {
  return Unavailable("draining",
                     "the server or the model is being stopped, and the time to finish has passed");
}

bool AdmissionState::TryEnter(int n, int limit) {
  int now = places.load(std::memory_order_relaxed);
  do {
    if (now > limit - n) return false;
  } while (!places.compare_exchange_weak(now, now + n, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  unfinished.fetch_add(n, std::memory_order_acq_rel);
  return true;
}

bool AdmissionState::TryStepAside(int n, int limit) {
  if (aside.load(std::memory_order_relaxed) >= limit) return false;
  aside.fetch_add(1, std::memory_order_relaxed);
  places.fetch_sub(n, std::memory_order_acq_rel);
  return true;
}

void AdmissionState::StepBack(int n) {
  places.fetch_add(n, std::memory_order_acq_rel);
  aside.fetch_sub(1, std::memory_order_relaxed);
}

void AdmissionState::Leave(int n, bool was_aside) {
  if (was_aside) {
    aside.fetch_sub(1, std::memory_order_relaxed);
  } else {
    places.fetch_sub(n, std::memory_order_acq_rel);
  }
  if (unfinished.fetch_sub(n, std::memory_order_acq_rel) != n) return;
  const MutexLock lock(mutex);  // a waiter between its check and its wait must not miss the notice
  idle.NotifyAll();
}

Status AdmissionState::Refuse(std::string_view reason, const std::string& what, Duration wait) {
  refused.fetch_add(1, std::memory_order_relaxed);
  return Unavailable(reason, what).WithRetryAfter(RetryAfter(wait, salt++));
}

Status AdmissionState::ReserveTokens(api::Priority priority, int64_t tokens, std::string_view what,
                                     Duration wait) {
  const int64_t before = queued_tokens.fetch_add(tokens, std::memory_order_relaxed);
  const int64_t limit = Allowed(priority, token_limit);
  // An empty queue accepts any request that the model can run; the limit is for requests that pile
  // up.
  if (before == 0 || before + tokens <= limit) return OkStatus();
  queued_tokens.fetch_sub(tokens, std::memory_order_relaxed);
  return Full("the waiting " + std::string(what) + " hold " + std::to_string(before) +
                  " tokens, the most allowed is " + std::to_string(limit),
              wait);
}

api::LoadLevel AdmissionState::Level() const {
  double most = 0;
  const auto note = [&most](int64_t taken, int64_t bound) {
    if (bound > 0)
      most = std::max(most, static_cast<double>(taken) / static_cast<double>(bound));
    else if (taken > 0)
      most = 1;
  };
  note(std::max(0, places.load(std::memory_order_relaxed) - max_num_seqs), limits.requests);
  note(queued_bytes.load(std::memory_order_relaxed), static_cast<int64_t>(limits.bytes));
  note(queued_tokens.load(std::memory_order_relaxed), token_limit);
  note(items.load(std::memory_order_relaxed), item_limit);
  note(result_bytes.load(std::memory_order_relaxed), result_limit);
  const api::LoadLevel queue = api::LevelOf(most);
  return memory_level == nullptr ? queue : std::max(queue, memory_level->load());
}

int64_t Allowed(api::Priority priority, int64_t bound) {
  if (priority == api::Priority::kInteractive) return bound;
  return static_cast<int64_t>(std::ceil(static_cast<double>(bound) * api::kYellowLoad));
}

Result<AdmissionPermit> EnterQueue(const std::shared_ptr<AdmissionState>& admission,
                                   const std::shared_ptr<Mailbox>& mailbox, const QueueEntry& entry,
                                   TimePoint now) {
  if (entry.deadline <= now) return DeadlinePassed();
  // Uses half of the estimate: refusing a request that would have been served in time is worse than
  // a wait in vain.
  if (entry.deadline != TimePoint::max() && entry.wait / 2 > entry.deadline - now) {
    return admission->Refuse("overloaded",
                             "the expected wait is longer than the request's deadline allows",
                             entry.wait / 2);
  }
  if (admission->memory_level != nullptr) {
    const api::LoadLevel memory = admission->memory_level->load(std::memory_order_relaxed);
    const bool lower = entry.priority != api::Priority::kInteractive;
    if (memory == api::LoadLevel::kRed || (lower && memory == api::LoadLevel::kYellow))
      return admission->Refuse("overloaded", "the server's memory is nearly used up", entry.wait);
  }
  const auto allowed = [&](int64_t bound) { return Allowed(entry.priority, bound); };
  const auto bytes = static_cast<int64_t>(entry.bytes), items = int64_t{entry.items};
  const auto leave = [&] {
    admission->queued_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    admission->items.fetch_sub(items, std::memory_order_relaxed);
  };
  const int64_t held = admission->queued_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const int64_t inputs = admission->items.fetch_add(items, std::memory_order_relaxed);
  if (held > 0 && held + bytes > allowed(static_cast<int64_t>(admission->limits.bytes))) {
    leave();
    return admission->Full("the waiting requests hold " + std::to_string(held) + " bytes, " +
                               std::to_string(bytes) + " more would pass the limit of " +
                               Bound(entry.priority, static_cast<int64_t>(admission->limits.bytes)),
                           entry.wait);
  }
  if (inputs > 0 && inputs + items > allowed(admission->item_limit)) {
    leave();
    return admission->Full("the waiting requests hold " + std::to_string(inputs) + " inputs, " +
                               std::to_string(items) + " more would pass the limit of " +
                               Bound(entry.priority, admission->item_limit),
                           entry.wait);
  }
  const int64_t waiting = allowed(admission->limits.requests);
  // An empty queue accepts every request that fits at all, of lower classes too.
  const int limit = std::max(admission->max_num_seqs + static_cast<int>(waiting), entry.n);
  if (!admission->TryEnter(entry.n, limit)) {
    leave();
    std::string running;
    if (admission->max_num_seqs > 0)
      running = std::to_string(admission->max_num_seqs) +
                (admission->max_num_seqs == 1 ? " sequence and " : " sequences and ");
    return admission->Full("all " + running + std::to_string(waiting) +
                               (waiting == 1 ? " place" : " places") + " in the queue" +
                               (entry.priority == api::Priority::kInteractive
                                    ? " are taken"
                                    : " that requests of this class may have are taken"),
                           entry.wait);
  }
  admission->preparing.fetch_add(entry.n, std::memory_order_relaxed);
  AdmissionPermit permit;
  permit.admission_ = admission;
  permit.control_ = std::make_shared<RequestControl>(mailbox);
  permit.accepted_at_ = now;
  permit.n_ = entry.n;
  permit.items_ = entry.items;
  permit.bytes_ = bytes;
  return permit;
}

bool DrainQueue(AdmissionState& admission, Signal& signal, const Clock& clock, TimePoint deadline) {
  admission.draining.store(true, std::memory_order_release);
  const auto wait_until = [&](TimePoint limit) {
    const MutexLock lock(admission.mutex);
    while (admission.unfinished.load(std::memory_order_acquire) > 0) {
      const Duration left = limit - clock.Now();
      if (left.count() <= 0) return false;
      admission.idle.WaitFor(admission.mutex,
                             std::min<Duration>(left, std::chrono::milliseconds(100)));
    }
    return true;
  };
  if (wait_until(deadline)) return true;
  admission.closed.store(true, std::memory_order_release);
  admission.drain_deadline_ns.store(INT64_MIN, std::memory_order_release);
  signal.Notify();
  // The step in progress ends first. Requests whose permit is still in preparation
  // do not reach the engine any more.
  wait_until(clock.Now() + std::chrono::seconds(2));
  return false;
}

}  // namespace tutti::engine
