// Memory of the process: how much there is, the load level that follows from it, its return to the
// system, and the end of a process that gets no more.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "api/inference.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/log.h"

namespace tutti::app {

class Settings;

// --- memory of the machine, of the process's control group and of the process; any thread; reads a
// few small files of /proc ---

// Bytes that can be allocated without swapping; 0 = unknown.
uint64_t AvailableMemory();

// Resident bytes of this process; 0 = unknown.
int64_t ResidentMemory();

// Maximum bytes for this process: the memory of the machine, or the smallest limit of its control
// group and the groups above (memory.max of version 2, memory.limit_in_bytes of version 1; Linux,
// Documentation/admin-guide/cgroup-v2.rst). 0 = unknown. `root`: parent of /proc and
// /sys/fs/cgroup, for tests.
int64_t MostMemory(const std::string& root = "");

// Memory limit of this process: memory.limit_bytes if set, else MostMemory().
int64_t MemoryLimitFrom(const Settings& settings);

// Computes the memory level of the process. At most four times a second it compares the resident
// size with the limit and publishes the level to admission, the log and the health probes. The
// thresholds follow Envoy's overload manager: at 80 % only interactive requests are accepted, at
// 95 % free memory is returned to the system, at 98 % all new requests are refused.
//
// The percentages refer to the memory that remains after weights and KV cache, which were planned
// and do not shrink. KV cache pages count as planned even before a request has touched them; until
// then other allocations can grow into their space undetected.
class MemoryWatch final : public api::HealthProbe {
 public:
  static constexpr Duration kEvery = std::chrono::milliseconds(250);
  static constexpr double kShrink = 0.95;
  static constexpr Duration kShrinkEvery = std::chrono::seconds(5);
  // Hysteresis: a level ends when the share is this much below the level's threshold.
  static constexpr double kSlack = 0.03;
  // Lower bound for the room that remains after the models; used when they leave less.
  static constexpr int64_t kLeastRoom = int64_t{16} << 20;

  struct Ports {
    std::function<int64_t()> resident;  // bytes; 0 = not known
    std::function<void()> shrink;       // gives back what is free, or can be had again
  };

  // `limit`: bytes that the process can have; 0 = not known, and the level stays green. `level` is
  // written. All outlive it.
  MemoryWatch(const api::HealthProbe& inner, int64_t limit, Ports ports,
              std::atomic<api::LoadLevel>& level, const Clock& clock, Logger& log);

  // --- one thread ---
  // Now and then.
  void Look();

  // --- any thread ---
  // Checks the room left after the models; without any, every request would be refused. Errors:
  // out_of_memory.
  Status CheckRoom() const;
  // Called when the models are loaded: the present resident size plus `later` untouched bytes count
  // as planned. Before this call the level is green.
  void ModelsAreLoaded(int64_t later);
  // Called at run time: before a model is loaded with the bytes that it takes, and after one is
  // unloaded with the same bytes, negative.
  void ModelsChanged(int64_t bytes) { planned_.fetch_add(bytes); }

  struct Figures {
    int64_t limit = 0, planned = 0, resident = 0;  // bytes
    api::LoadLevel level = api::LoadLevel::kGreen;
  };
  Figures figures() const;  // as of the last look

  Status started() const override { return inner_.started(); }
  Status live() const override { return inner_.live(); }
  // Errors: those of `inner`; overloaded at level red.
  Status ready() const override;

 private:
  double Share(int64_t resident) const;

  const api::HealthProbe& inner_;
  const int64_t limit_;
  const Ports ports_;
  std::atomic<api::LoadLevel>& level_;
  const Clock& clock_;
  Logger& log_;
  std::atomic<int64_t> planned_{0};  // 0 = nothing is loaded
  std::atomic<int64_t> resident_{0};
  TimePoint next_look_ = TimePoint::min(), next_shrink_ = TimePoint::min();
};

// Returns free heap memory to the system (malloc_trim) when a server is idle. glibc returns only
// memory at the end of the heap by itself; after many small requests hundreds of megabytes of
// fragments would stay with the process (measured: 586 MiB, 253 after a trim).
//
// Owned and used by the thread that waits for signals.
class IdleMemory {
 public:
  static constexpr Duration kIdle = std::chrono::seconds(5);
  static constexpr size_t kWorthIt = size_t{16} << 20;  // bytes more that are free than last time

  // Called periodically. After kIdle without requests it trims the heap if free memory has grown;
  // not earlier, because allocations block during a trim (milliseconds).
  void Look(bool busy, TimePoint now);

 private:
  TimePoint looked_{};  // or when it was busy
  size_t kept_ = 0;     // bytes that were free after the last time, given back or not
};

// --- out-of-memory errors that no request can be refused for: the process ends with one line
// instead of a report by the run-time library; for all threads ---

// An uncaught std::bad_alloc prints one line and ends the process with exit status 1; other
// exceptions behave as before. Call it once, before other threads exist.
void EndInOneLineWithoutMemory();
// Like the above, but ends with SIGABRT, for a process with a supervisor that restarts it after a
// signal.
void EndBySignalWithoutMemory();

// Prints the line; allocates no memory.
void ReportLackOfMemory();

}  // namespace tutti::app
