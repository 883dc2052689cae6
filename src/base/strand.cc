#include "base/strand.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/threads.h"

namespace tutti {
namespace {

thread_local const Strand* strand_of_this_thread = nullptr;

}  // namespace

Strand::Strand(const Clock& clock, size_t max_waiting, const char* name)
    : clock_(clock), max_waiting_(max_waiting), name_(name) {
  thread_ = std::thread([this] { Main(); });
}

Strand::~Strand() { Stop(); }

void Strand::OnWake(Task pump) {
  const MutexLock lock(mutex_);
  pump_ = std::move(pump);
}

void Strand::Post(Task task) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  changed_.Notify();
}

bool Strand::TryPost(Task task) {
  const MutexLock lock(mutex_);
  if (stopping_ || tasks_.size() >= max_waiting_) return false;
  tasks_.push_back(std::move(task));
  changed_.Notify();
  return true;
}

void Strand::PostAt(TimePoint when, Task task) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  timed_.emplace(when, std::move(task));
  changed_.Notify();
}

void Strand::Wake() noexcept {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  woken_ = true;
  changed_.Notify();
}

bool Strand::OnThisThread() const noexcept { return strand_of_this_thread == this; }

void Strand::Look() {
  const MutexLock lock(mutex_);
  changed_.Notify();
}

void Strand::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.Notify();
  }
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
  // Outside the lock: what tasks hold may post when it goes.
  std::deque<Task> tasks;
  std::multimap<TimePoint, Task> timed;
  const MutexLock lock(mutex_);
  tasks.swap(tasks_);
  timed.swap(timed_);
}

void Strand::TakeDue() {
  const auto end = timed_.upper_bound(clock_.Now());
  for (auto task = timed_.begin(); task != end; ++task) tasks_.push_back(std::move(task->second));
  timed_.erase(timed_.begin(), end);
}

bool Strand::Next(std::deque<Task>* tasks, bool* woken) {
  const MutexLock lock(mutex_);
  while (true) {
    if (stopping_) return false;
    TakeDue();
    if (!tasks_.empty() || woken_) break;
    if (timed_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    // A manual clock does not advance during this wait, so tests call Look() after they move it.
    const Duration wait = timed_.begin()->first - clock_.Now();
    changed_.WaitFor(mutex_, std::clamp(wait, Duration(0), Duration(std::chrono::hours(1))));
  }
  tasks->swap(tasks_);
  *woken = std::exchange(woken_, false);
  return true;
}

void Strand::Main() {
  NameThread(name_);
  strand_of_this_thread = this;
  std::deque<Task> tasks;
  bool woken = false;
  while (Next(&tasks, &woken)) {
    for (Task& task : tasks) {
      task();
      task = nullptr;
    }
    tasks.clear();
    if (woken && pump_) pump_();
  }
  changed_.Leave();
}

}  // namespace tutti
