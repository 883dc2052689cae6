// StrandTasks: runs the tasks of a profile on the strand of the responses, until Stop(). Callbacks
// that were given to others (the port, the services, the clock) may be called at any time; once
// Stop() has returned they do nothing.
#pragma once

#include <future>
#include <memory>
#include <utility>

#include "api/token_stream.h"
#include "base/strand.h"

namespace tutti::mqtt::chat {

class StrandTasks {
 public:
  explicit StrandTasks(std::shared_ptr<Strand> strand) : strand_(std::move(strand)) {}
  StrandTasks(const StrandTasks&) = delete;
  StrandTasks& operator=(const StrandTasks&) = delete;

  // Wraps `task`, to be called on the strand: it does nothing after Stop().
  template <typename Task>
  auto WhileAlive(Task task) const {
    return [alive = std::weak_ptr<bool>(alive_), task = std::move(task)](auto&&... args) mutable {
      const std::shared_ptr<bool> held = alive.lock();
      if (held != nullptr && *held) task(std::forward<decltype(args)>(args)...);
    };
  }
  // Any thread.
  template <typename Task>
  void Post(Task task) const {
    strand_->Post(WhileAlive(std::move(task)));
  }
  template <typename Task>
  void PostAt(TimePoint when, Task task) const {
    strand_->PostAt(when, WhileAlive(std::move(task)));
  }
  // Returns a waker that runs `task` on the strand; several wake-ups before the run cause one run.
  std::shared_ptr<Waker> MakeWaker(std::function<void()> task) const;

  const std::shared_ptr<Strand>& strand() const { return strand_; }

  // Runs `last` on the strand, unless the strand has stopped; afterwards no task runs. Blocks; must
  // not be called on the strand. Called once.
  void Stop(std::function<void()> last);

 private:
  const std::shared_ptr<Strand> strand_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // value: strand only
};

}  // namespace tutti::mqtt::chat
