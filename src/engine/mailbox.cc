#include "engine/mailbox.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "engine/request.h"

namespace tutti::engine {

// --- Signal ---

Signal::Signal() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(fd_ >= 0) << "eventfd: the process has no file descriptor left at start";
}

Signal::~Signal() { close(fd_); }

void Signal::Notify() noexcept {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it is signalled.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

void Signal::Wait(Duration timeout) noexcept {
  pollfd descriptor{fd_, POLLIN, 0};
  timespec limit{};
  const bool bounded = timeout != Duration::max();
  if (bounded) {
    const int64_t ns = std::max<int64_t>(timeout.count(), 0);
    limit.tv_sec = ns / 1'000'000'000;
    limit.tv_nsec = ns % 1'000'000'000;
  }
  ppoll(&descriptor, 1, bounded ? &limit : nullptr, nullptr);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof(count));
}

// --- Mailbox ---

namespace {

template <typename Node, typename Next>
Node* Reversed(Node* newest, Next next) {
  Node* oldest = nullptr;
  while (newest != nullptr) {
    Node* older = next(newest);
    next(newest) = oldest;
    oldest = newest;
    newest = older;
  }
  return oldest;
}

}  // namespace

Mailbox::~Mailbox() {
  for (Submission* record = submissions_.load(); record != nullptr;) {
    Submission* next = record->next_submission;
    delete record;
    record = next;
  }
}

void Mailbox::Submit(std::unique_ptr<Submission> record, TimePoint now, bool urgent) {
  Submission* node = record.release();
  Submission* head = submissions_.load(std::memory_order_relaxed);
  do {
    if (head == nullptr)
      pending_since_ns_.store(now.time_since_epoch().count(), std::memory_order_release);
    node->next_submission = head;
  } while (!submissions_.compare_exchange_weak(head, node, std::memory_order_release,
                                               std::memory_order_relaxed));
  if (urgent) urgent_.store(true, std::memory_order_relaxed);
  if (head == nullptr) signal_->Notify();
}

void Mailbox::Touch(RequestControl* control) noexcept {
  if (control->queued_.exchange(true, std::memory_order_acq_rel))
    return;  // the engine will see this touch too
  control->self_ = control->shared_from_this();
  RequestControl* head = touched_.load(std::memory_order_relaxed);
  do {
    control->next_ = head;
  } while (!touched_.compare_exchange_weak(head, control, std::memory_order_seq_cst,
                                           std::memory_order_relaxed));
  if (head == nullptr) signal_->Notify();
  if (closed_.load(std::memory_order_seq_cst)) Close();
}

void Mailbox::Close() {
  closed_.store(true, std::memory_order_seq_cst);
  for (RequestControl* control = TakeTouched(); control != nullptr;) {
    RequestControl* next = control->next_;
    Untouch(control);
    control = next;
  }
}

Submission* Mailbox::TakeSubmissions() {
  return Reversed(submissions_.exchange(nullptr, std::memory_order_acquire),
                  [](Submission* s) -> Submission*& { return s->next_submission; });
}

RequestControl* Mailbox::TakeTouched() {
  return Reversed(touched_.exchange(nullptr, std::memory_order_seq_cst),
                  [](RequestControl* c) -> RequestControl*& { return c->next_; });
}

std::shared_ptr<RequestControl> Mailbox::Untouch(RequestControl* control) {
  std::shared_ptr<RequestControl> alive = std::move(control->self_);
  // From here on a new touch queues it again; what was written before it is read by the caller
  // after this.
  control->queued_.exchange(false, std::memory_order_acq_rel);
  return alive;
}

}  // namespace tutti::engine
