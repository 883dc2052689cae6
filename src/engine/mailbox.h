// Mailbox: hands requests and cancellations from any thread to a slot on the engine thread, through
// lock-free stacks.
//
// Producers push, and signal the engine thread only when the stack was empty. At the next step
// boundary the engine thread takes everything at once, in order of arrival.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.h"
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
  // Returns after a Notify(), or at once after an earlier one that is not yet consumed, or after
  // `timeout`; Duration::max() = no timeout.
  void Wait(Duration timeout) noexcept;

 private:
  int fd_;
};

// Base of a request's state as it is handed over: RequestState or EncodeRequestState, depending on
// the slot.
struct Submission {
  virtual ~Submission() = default;
  Submission* next_submission = nullptr;  // mailbox
};

class Mailbox {
 public:
  explicit Mailbox(std::shared_ptr<Signal> signal) : signal_(std::move(signal)) {}
  ~Mailbox();

  // --- any thread ---
  // `urgent`: a batch-class step in flight may be aborted for this request.
  void Submit(std::unique_ptr<Submission> record, TimePoint now, bool urgent = false);
  void Touch(RequestControl* control) noexcept;  // cancelled or granted

  // --- engine thread ---
  // Calls `take(unique_ptr<Record>)` for each submission and `touched(RequestControl&)` for each
  // touched control, oldest first. `Record` is the one kind that is submitted here. True when there
  // was any.
  template <typename Record, typename Take, typename Touched>
  bool Drain(Take take, Touched touched) {
    bool any = false;
    for (Submission* record = TakeSubmissions(); record != nullptr;) {
      Submission* next = record->next_submission;
      take(std::unique_ptr<Record>(static_cast<Record*>(record)));
      record = next;
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
  // When the oldest submission that was not taken yet arrived; max() when there is none.
  TimePoint pending_since() const {
    return submissions_.load(std::memory_order_acquire) == nullptr
               ? TimePoint::max()
               : TimePoint(Duration(pending_since_ns_.load(std::memory_order_acquire)));
  }
  // Whether an urgent submission was not taken yet. May still be true just after it was taken.
  const std::atomic<bool>& urgent() const { return urgent_; }
  void ClearUrgent() { urgent_.store(false, std::memory_order_relaxed); }
  bool empty() const {
    return submissions_.load(std::memory_order_acquire) == nullptr &&
           touched_.load(std::memory_order_acquire) == nullptr;
  }
  // Controls outlive the slot; after this their touches go nowhere.
  void Close();

 private:
  Submission* TakeSubmissions();
  RequestControl* TakeTouched();
  static std::shared_ptr<RequestControl> Untouch(RequestControl* control);

  const std::shared_ptr<Signal> signal_;
  std::atomic<Submission*> submissions_{nullptr};
  std::atomic<RequestControl*> touched_{nullptr};
  std::atomic<int64_t> pending_since_ns_{0};
  std::atomic<bool> closed_{false}, urgent_{false};
};

}  // namespace tutti::engine
