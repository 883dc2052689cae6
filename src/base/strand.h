// Strand: a task queue with one thread, for state that then needs no lock.
//
// Tasks run in the order in which they were posted, timed tasks at their time. After one or several
// Wake() calls (a stream that is read here has grown) the pump runs once. Tasks
// must not block for a model or a client, nor for a disk unless nothing else waits for the strand.
//
// Any thread may call Post, TryPost, PostAt, Wake, Look and OnThisThread; none blocks. Streams hold
// the strand as their waker, so it may outlive its owner, which must call Stop(): afterwards no
// task runs, and posted tasks are dropped.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/core_wanted.h"
#include "base/mutex.h"
#include "base/waker.h"

namespace tutti {

class Strand final : public Waker {
 public:
  using Task = std::function<void()>;

  // `max_waiting`: tasks of TryPost() that have not begun. `name`: of the thread, a literal.
  explicit Strand(const Clock& clock, size_t max_waiting = 16384,
                  const char* name = "tutti-strand");
  ~Strand() override;  // stopped
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // Sets the pump; call it before the first Wake().
  void OnWake(Task pump);

  // For tasks whose number is bounded by other means.
  void Post(Task task);
  // For tasks on behalf of clients; returns false and does nothing if too many tasks wait.
  bool TryPost(Task task);
  void PostAt(TimePoint when, Task task);
  void Wake() noexcept override;
  // Whether the caller is a task of this strand, which may use its state without a hand-over.
  bool OnThisThread() const noexcept;
  // For tests, after a manual clock was moved: timed tasks may be due.
  void Look();

  // Stops the thread; blocks for the running task if called by another thread. Idempotent.
  void Stop();

 private:
  void Main();
  // Gets the due tasks, in order, and whether the pump is due. False: stopped.
  bool Next(std::deque<Task>* tasks, bool* woken);
  void TakeDue() REQUIRES(mutex_);

  const Clock& clock_;
  const size_t max_waiting_;
  const char* const name_;
  Task pump_;
  Mutex mutex_;
  UrgentCondVar changed_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  std::multimap<TimePoint, Task> timed_ GUARDED_BY(mutex_);
  bool woken_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti
