#include "server/grpc/pump.h"

#include <algorithm>

#include "base/check.h"
#include "base/threads.h"

namespace tutti::rpc {

Handlers::Entered Handlers::Enter(int64_t message_bytes, std::function<void()> run,
                                  uint64_t* ticket) {
  const MutexLock lock(mutex_);
  if (running_ < max_) {
    ++running_;
    return Entered::kNow;
  }
  if (static_cast<int>(line_.size()) >= max_waiting_ || message_bytes > max_bytes_ - bytes_) {
    return Entered::kFull;
  }
  bytes_ += message_bytes;
  *ticket = ++tickets_;
  line_.emplace(*ticket, Waiting{message_bytes, std::move(run)});
  return Entered::kWait;
}

void Handlers::Leave() {
  std::function<void()> next;
  {
    const MutexLock lock(mutex_);
    CHECK_GT(running_, 0);
    if (line_.empty()) {
      --running_;
      return;
    }
    // Passes the handler to the first call in the queue.
    const auto first = line_.begin();
    next = std::move(first->second.run);
    bytes_ -= first->second.bytes;
    line_.erase(first);
  }
  hand_on_(std::move(next));
}

void Handlers::Forget(uint64_t ticket) {
  std::function<void()> gone;  // and what it holds, without the lock
  const MutexLock lock(mutex_);
  const auto found = line_.find(ticket);
  if (found == line_.end()) return;
  gone = std::move(found->second.run);
  bytes_ -= found->second.bytes;
  line_.erase(found);
}

int Handlers::running() const {
  const MutexLock lock(mutex_);
  return running_;
}

int Handlers::waiting() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(line_.size());
}

// Outlives the pump in streams that have not ended.
class Pump::QueueWaker final : public Waker {
 public:
  explicit QueueWaker(Pump* pump) : pump_(pump) {}
  void Wake() noexcept override {
    const MutexLock lock(mutex_);
    if (pump_ != nullptr) pump_->Wake();
  }
  void Detach() {
    const MutexLock lock(mutex_);
    pump_ = nullptr;
  }

 private:
  Mutex mutex_;
  Pump* pump_ GUARDED_BY(mutex_);
};

Pump::Pump(const Clock& clock, Duration sweep_every)
    : clock_(clock), sweep_every_(sweep_every), waker_(std::make_shared<QueueWaker>(this)) {}

Pump::~Pump() {
  Stop();
  waker_->Detach();
}

void Pump::Start() {
  thread_ = std::thread([this] { Main(); });
}

void Pump::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.Notify();
  }
  if (thread_.joinable()) thread_.join();
  // Posted work that never ran is destroyed without the lock held.
  std::vector<std::function<void()>> work;
  Calls calls, watched;
  const MutexLock lock(mutex_);
  work.swap(work_);
  calls.swap(calls_);
  watched.swap(watched_);
}

std::shared_ptr<Waker> Pump::waker() const { return waker_; }

void Pump::Wake() {
  const MutexLock lock(mutex_);
  if (woken_) return;
  woken_ = true;
  changed_.Notify();
}

void Pump::Add(std::shared_ptr<Pumped> call) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  const Pumped* key = call.get();
  calls_.emplace(key, std::move(call));
  // The call's event may have come before it was added.
  woken_ = true;
  changed_.Notify();
}

void Pump::Erase(const Pumped* call, Calls& calls, std::shared_ptr<Pumped>* removed) {
  const auto found = calls.find(call);
  if (found == calls.end()) return;
  *removed = std::move(found->second);
  calls.erase(found);
}

void Pump::Remove(const Pumped* call) {
  std::shared_ptr<Pumped> removed;  // goes without the lock
  const MutexLock lock(mutex_);
  Erase(call, calls_, &removed);
}

void Pump::Watch(std::shared_ptr<Pumped> call) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  const Pumped* key = call.get();
  watched_.emplace(key, std::move(call));
  if (sweeping_) return;
  sweeping_ = true;
  next_sweep_ = clock_.Now() + sweep_every_;
  changed_.Notify();
}

void Pump::Unwatch(const Pumped* call) {
  std::shared_ptr<Pumped> removed;
  const MutexLock lock(mutex_);
  Erase(call, watched_, &removed);
}

void Pump::SweepSoon() {
  const MutexLock lock(mutex_);
  sweep_ = woken_ = true;
  changed_.Notify();
}

void Pump::Post(std::function<void()> work) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  work_.push_back(std::move(work));
  changed_.Notify();
}

bool Pump::Await(TimePoint due) {
  const MutexLock lock(mutex_);
  while (!stopping_ && !woken_ && work_.empty()) {
    const TimePoint now = clock_.Now();
    // Short calls do not wake the pump each: what matters is whether any call was added since the
    // last sweep, not whether one is there now.
    const TimePoint until = sweeping_ ? std::min(due, next_sweep_) : due;
    if (now >= until) break;
    if (until != TimePoint::max()) {
      changed_.WaitFor(mutex_, until - now);
      continue;
    }
    changed_.Wait(mutex_);
  }
  woken_ = false;
  return !stopping_;
}

void Pump::Main() {
  NameThread("tutti-pump");
  TimePoint due = TimePoint::max();
  while (Await(due)) {
    std::vector<std::function<void()>> work;
    std::vector<std::shared_ptr<Pumped>> calls, swept;
    {
      const MutexLock lock(mutex_);
      const bool sweep = sweep_ || (sweeping_ && clock_.Now() >= next_sweep_);
      sweep_ = false;
      work.swap(work_);
      calls.reserve(calls_.size());
      for (const auto& [key, call] : calls_) calls.push_back(call);
      if (sweep) {
        for (const auto& [key, call] : watched_) swept.push_back(call);
        sweeping_ = !swept.empty();
        next_sweep_ = clock_.Now() + sweep_every_;
      }
    }
    for (const std::function<void()>& run : work) run();
    due = TimePoint::max();
    for (const std::shared_ptr<Pumped>& call : calls) due = std::min(due, call->PumpOnce());
    for (const std::shared_ptr<Pumped>& call : swept) call->Sweep();
  }
}

}  // namespace tutti::rpc
