// StrandTasks: how a profile's parts come to run on the responses' strand, and stop. What they hand
// to others (to the port, the services, the clock) may be called for as long as those like; once
// Stop() has returned none of it runs any more.
#pragma once

#include <future>
#include <memory>
#include <utility>

#include "api/token_stream.h"
#include "services/responses/strand.h"

namespace tutti::mqtt::profile {

class StrandTasks {
 public:
  explicit StrandTasks(std::shared_ptr<responses::Strand> strand) : strand_(std::move(strand)) {}
  StrandTasks(const StrandTasks&) = delete;
  StrandTasks& operator=(const StrandTasks&) = delete;

  // `task`, to be called on the strand: nothing happens once this has stopped.
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
  // Runs `task` on the strand once, however often it is told before that.
  std::shared_ptr<api::StreamWaker> MakeWaker(std::function<void()> task) const;

  const std::shared_ptr<responses::Strand>& strand() const { return strand_; }

  // Runs `last` on the strand, unless that has stopped, and nothing of this after it. Waits; not on
  // the strand. Once.
  void Stop(std::function<void()> last);

 private:
  const std::shared_ptr<responses::Strand> strand_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // its value: of the strand
};

}  // namespace tutti::mqtt::profile
