#include "server/mqtt/chat/strand_tasks.h"

#include <atomic>

namespace tutti::mqtt::chat {
namespace {

class OnceWaker final : public Waker, public std::enable_shared_from_this<OnceWaker> {
 public:
  OnceWaker(std::shared_ptr<Strand> strand, std::function<void()> task)
      : strand_(std::move(strand)), task_(std::move(task)) {}

  void Wake() noexcept override {
    if (posted_.exchange(true)) return;
    strand_->Post([self = shared_from_this()] {
      self->posted_.store(false);
      self->task_();
    });
  }

 private:
  const std::shared_ptr<Strand> strand_;
  const std::function<void()> task_;
  std::atomic<bool> posted_{false};
};

// Fulfils its promise when it is destroyed, because a stopped strand drops tasks without running
// them.
class Gate {
 public:
  explicit Gate(std::promise<void> passed) : passed_(std::move(passed)) {}
  ~Gate() { passed_.set_value(); }

 private:
  std::promise<void> passed_;
};

}  // namespace

std::shared_ptr<Waker> StrandTasks::MakeWaker(std::function<void()> task) const {
  return std::make_shared<OnceWaker>(strand_, WhileAlive(std::move(task)));
}

void StrandTasks::Stop(std::function<void()> last) {
  std::promise<void> promise;
  std::future<void> passed = promise.get_future();
  strand_->Post([this, gate = std::make_shared<Gate>(std::move(promise)), last = std::move(last)] {
    last();
    *alive_ = false;
  });
  passed.wait();
}

}  // namespace tutti::mqtt::chat
