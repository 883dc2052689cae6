// Strand: one thread on which the responses and the dialogs live, so that their state needs no
// lock.
//
// Tasks run one after the other in the order in which they were posted; a task at its time; and
// after a Wake() (an engine has appended to streams that are read here) the pump, once however
// often it was called. Nothing that runs here may wait for a model, a disk or a client.
//
// Post, TryPost, PostAt, Wake and Look: any thread, none blocks. It is a waker of streams and is
// held by them, so it may outlive its owner, who stops it: from then on nothing runs here, and what
// was posted is dropped.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "api/token_stream.h"
#include "base/clock.h"
#include "base/core_wanted.h"
#include "base/mutex.h"

namespace tutti::responses {

class Strand final : public api::StreamWaker {
 public:
  using Task = std::function<void()>;

  // `most_waiting`: tasks of TryPost() that have not begun. `name`: of the thread, a literal.
  explicit Strand(const Clock& clock, size_t most_waiting = 16384,
                  const char* name = "tutti-strand");
  ~Strand() override;  // stopped
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // Before the first Wake().
  void OnWake(Task pump);

  // From those who have bounded what they post by other means.
  void Post(Task task);
  // From clients: false, and nothing happened, when too many wait.
  bool TryPost(Task task);
  void PostAt(TimePoint when, Task task);
  void Wake() noexcept override;
  // The clock has been moved by hand: tasks may have come due.
  void Look();

  // Waits for the task that runs, if another thread calls. Idempotent.
  void Stop();

 private:
  void Main();
  // What is to run now, in order, and whether the pump is; false: stopped.
  bool Next(std::deque<Task>* tasks, bool* woken);
  void TakeDue() REQUIRES(mutex_);

  const Clock& clock_;
  const size_t most_waiting_;
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

}  // namespace tutti::responses
