// How other threads reach a decoder: a mailbox of lock-free stacks, and the ledger of the bounded
// queue.
//
// Producers push and, only when the stack was empty, signal the engine thread; it takes everything
// at once at the next step boundary, in order of arrival.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/options.h"
#include "engine/request.h"

namespace tutti::engine {

// One eventfd. Notify() from any thread; Wait() from one.
class Signal {
 public:
  Signal();
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void Notify() noexcept;
  // Returns after a Notify(), also one that came before, or after `timeout`; Duration::max() = no
  // timeout.
  void Wait(Duration timeout) noexcept;

 private:
  int fd_;
};

struct Work;  // work.h

class Mailbox {
 public:
  explicit Mailbox(std::shared_ptr<Signal> signal) : signal_(std::move(signal)) {}
  ~Mailbox();

  // --- any thread ---
  void Submit(std::unique_ptr<Work> work, TimePoint now);
  void Touch(RequestControl* control) noexcept;  // cancelled or granted

  // --- engine thread ---
  // Calls `take(unique_ptr<Work>)` for each submission and `touched(RequestControl&)` for each
  // touched control, oldest first. True when there was any.
  template <typename Take, typename Touched>
  bool Drain(Take take, Touched touched) {
    bool any = false;
    for (Work* work = TakeSubmissions(); work != nullptr;) {
      Work* next = NextOf(work);
      take(Own(work));
      work = next;
      any = true;
    }
    for (RequestControl* control = TakeTouched(); control != nullptr;) {
      RequestControl* next = control->next_;
      std::shared_ptr<RequestControl> alive = Untouch(control);
      touched(*alive);
      control = next;
      any = true;
    }
    return any;
  }
  // Since when a submission waits to be taken in; max() when none does.
  TimePoint pending_since() const {
    return submissions_.load(std::memory_order_acquire) == nullptr
               ? TimePoint::max()
               : TimePoint(Duration(pending_since_ns_.load(std::memory_order_acquire)));
  }
  bool empty() const {
    return submissions_.load(std::memory_order_acquire) == nullptr &&
           touched_.load(std::memory_order_acquire) == nullptr;
  }
  // Controls outlive the decoder; after this their touches go nowhere.
  void Close();

 private:
  static Work* NextOf(Work* work);
  static std::unique_ptr<Work> Own(Work* work);
  Work* TakeSubmissions();
  RequestControl* TakeTouched();
  static std::shared_ptr<RequestControl> Untouch(RequestControl* control);

  const std::shared_ptr<Signal> signal_;
  std::atomic<Work*> submissions_{nullptr};
  std::atomic<RequestControl*> touched_{nullptr};
  std::atomic<int64_t> pending_since_ns_{0};
  std::atomic<bool> closed_{false};
};

// Counts of the bounded queue, changed by doors and the engine alike. All atomic.
struct QueueLedger {
  QueueLimits limits;
  int lanes = 0;
  int64_t token_limit = 0;
  std::atomic<int> unfinished{0};        // choices of accepted requests that have not ended
  std::atomic<int> places{0};            // of those, all but the ones of requests set aside
  std::atomic<int> aside{0};             // requests set aside: paused for their readers
  std::atomic<int> preparing{0};         // of `unfinished`, not submitted yet
  std::atomic<int64_t> queued_bytes{0};  // of requests that never held a lane
  std::atomic<int64_t> queued_tokens{0};
  std::atomic<int64_t> service_ns{0};  // mean time a sequence holds a lane; written by the engine
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> salt{0};
  std::atomic<bool> draining{false};
  std::atomic<bool> closed{false};  // the engine takes nothing more, not even what was accepted
  std::atomic<int64_t> drain_deadline_ns{INT64_MAX};
  Mutex mutex;
  CondVar idle;  // notified when `unfinished` falls to 0

  // Takes places while `places + n <= limit` holds.
  bool TryEnter(int n, int limit);
  // Gives up the places of a request that cannot go on for now; false when too many have. Engine
  // thread, as StepBack, which takes them again even if others have filled the queue meanwhile:
  // `places` then exceeds its limit by those of requests that were aside, at most.
  bool TryStepAside(int n, int limit);
  void StepBack(int n);
  void Leave(int n, bool was_aside);
};

}  // namespace tutti::engine
