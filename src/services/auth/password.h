// Passwords as Argon2id hashes (RFC 9106), in the text form of its reference implementation:
// "$argon2id$v=19$m=32768,t=3,p=1$<salt>$<hash>". Functions take tens of milliseconds and
// temporarily `memory_kib` of memory; any thread except I/O threads and the store's thread.
// PasswordPool: the threads that they run on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace tutti::auth {

// The second recommendation of RFC 9106 (section 4: 3 passes, 64 MiB, 4 lanes) with two changes:
// half of the memory, because four hashes may run at once, and one lane, because more lanes make a
// login use more cores without making an attack more expensive. OWASP's minimum is 19 MiB and 2
// passes.
struct HashParameters {
  uint32_t memory_kib = 32 << 10;
  uint32_t passes = 3;
  uint32_t lanes = 1;
};

inline constexpr size_t kLeastPasswordBytes = 12, kMaxPasswordBytes = 1024;

// Errors: invalid_value (too short or too long; contains a control character).
Status CheckNewPassword(std::string_view password);

// Hashes with a random salt. Errors: overloaded (out of memory), internal_error.
Result<std::string> HashPassword(std::string_view password, const HashParameters& parameters);

// A hash that matches no password; verifying it costs as much as any other.
std::string HashOfNobody(const HashParameters& parameters);

// Whether `hash` is the hash of that password. A hash with more than 1 GiB or 16 passes is refused,
// because this program never makes one. Errors: overloaded, record_corrupt.
Result<bool> VerifyPassword(std::string_view password, const std::string& hash);

// Whether `hash` was made with other parameters than these.
bool NeedsRehash(std::string_view hash, const HashParameters& parameters);

// PasswordPool: a small thread pool that hashes passwords, so that a thousand simultaneous logins
// use the memory and cores of only a few hashes at a time.
//
// The threads have low priority: while a model is busy, logins become slower and answers do not.
// Any thread may call Run(); it never blocks.
class PasswordPool {
 public:
  struct Options {
    int threads = 0;          // 1 to 4; 0: half of the cores, within these bounds
    size_t max_waiting = 64;  // jobs that were not begun; then overloaded
    // A job that has waited longer gets overloaded: its client has probably given up, and during a
    // flood the pool would otherwise compute only hashes that no client waits for.
    Duration max_wait = std::chrono::seconds(5);
    int nice = 10;  // nice value of the threads, 0 to 19
  };
  static constexpr int kMaxThreads = 4;

  explicit PasswordPool(const Options& options);
  ~PasswordPool();  // waits for running jobs; waiting ones get `draining`
  PasswordPool(const PasswordPool&) = delete;
  PasswordPool& operator=(const PasswordPool&) = delete;

  // Calls `job` once: with OK on a thread of the pool, or with an error (overloaded, draining) on
  // any thread; the job must then do nothing.
  using Job = std::function<void(const Status& start)>;
  void Run(Job job);

  size_t threads() const { return threads_.size(); }
  size_t waiting() const {  // jobs that were not begun
    const MutexLock guard(mutex_);
    return waiting_.size();
  }

 private:
  struct Waiting {
    Job job;
    std::chrono::steady_clock::time_point since;
  };
  void Main();

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::auth
