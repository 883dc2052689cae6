#include "services/auth/password_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/cpus.h"
#include "base/thread_name.h"
#include "base/thread_turns.h"

namespace tutti::auth {
namespace {

int ThreadsOf(const PasswordPool::Options& options) {
  const int wanted = options.threads > 0 ? options.threads : UsableCores() / 2;
  return std::clamp(wanted, 1, PasswordPool::kMaxThreads);
}

Status TooMany(size_t waiting) {
  return Unavailable("overloaded",
                     std::to_string(waiting) + " logins wait for their passwords to be checked")
      .WithRetryAfter(std::chrono::seconds(2));
}

}  // namespace

PasswordPool::PasswordPool(const Options& options) : options_(options) {
  for (int i = ThreadsOf(options); i > 0; --i) threads_.emplace_back([this] { Main(); });
}

PasswordPool::~PasswordPool() {
  std::deque<Waiting> left;
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
    left.swap(waiting_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  for (const Waiting& each : left) each.job(Unavailable("draining", "the server is ending"));
}

void PasswordPool::Run(Job job) {
  Status refused;
  {
    const MutexLock guard(mutex_);
    if (waiting_.size() < options_.max_waiting) {
      waiting_.push_back({std::move(job), std::chrono::steady_clock::now()});
      changed_.NotifyOne();
      return;
    }
    refused = TooMany(waiting_.size());
  }
  job(refused);
}

void PasswordPool::Main() {
  NameThread("tutti-password");
  (void)setpriority(PRIO_PROCESS, 0, options_.nice);  // of this thread alone, as Linux has it
  PreferLongTurns();
  while (true) {
    Waiting next;
    size_t behind = 0;
    {
      const MutexLock guard(mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      if (stopping_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      behind = waiting_.size();
    }
    const auto waited = std::chrono::steady_clock::now() - next.since;
    next.job(waited > options_.max_wait ? TooMany(behind) : OkStatus());
  }
}

}  // namespace tutti::auth
