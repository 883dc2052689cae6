#include "app/process/memory.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <typeinfo>
#include <utility>

#include "app/config/settings.h"

namespace tutti::app {
namespace {

// The value of a line of meminfo, in bytes; 0 if there is no such line.
uint64_t MemInfo(const std::string& root, const std::string& name) {
  std::ifstream file(root + "/proc/meminfo");
  std::string word;
  uint64_t kib = 0;
  while (file >> word) {
    if (word == name && file >> kib) return kib << 10;
  }
  return 0;
}

// The lowest limit in files called `name`, in `group` below `mount` and in its parent groups; 0 if
// there is none. In a container the path may be the host's and not be visible; then the topmost
// file has the container's own limit.
int64_t LeastLimit(const std::string& mount, std::string group, const std::string& name) {
  int64_t least = 0;
  while (true) {
    std::ifstream file(mount + group + "/" + name);
    int64_t limit = 0;  // "max" is no number
    if (file >> limit && limit > 0) least = least == 0 ? limit : std::min(least, limit);
    if (group.empty()) return least;
    group.resize(std::min(group.find_last_of('/'), group.size() - 1));
  }
}

using api::LoadLevel;

// The level for `share` after the level `before`: rises at once, falls with hysteresis.
LoadLevel Next(LoadLevel before, double share) {
  return std::max(api::LevelOf(share), std::min(before, api::LevelOf(share + MemoryWatch::kSlack)));
}

constexpr char kLine[] =
    "tutti: out_of_memory: the system gives this process no more memory (`ulimit -v`, the limit of "
    "its control group)\n";

std::terminate_handler report = nullptr;  // of the run-time library
std::atomic<bool> by_signal{false};

[[noreturn]] void End() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (thrown == nullptr || *thrown != typeid(std::bad_alloc)) {
    report();
    std::abort();
  }
  static std::atomic_flag told;
  while (told.test_and_set()) pause();  // another thread is about to end them all
  ReportLackOfMemory();
  if (by_signal.load()) std::abort();
  _exit(1);
}

}  // namespace

uint64_t AvailableMemory() { return MemInfo("", "MemAvailable:"); }

int64_t ResidentMemory() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  return file >> total >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

int64_t MostMemory(const std::string& root) {
  auto most = static_cast<int64_t>(MemInfo(root, "MemTotal:"));
  const auto note = [&most](int64_t limit) {
    if (limit > 0) most = most == 0 ? limit : std::min(most, limit);
  };
  std::ifstream groups(root + "/proc/self/cgroup");  // lines of HIERARCHY:CONTROLLERS:PATH
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    while (!group.empty() && group.back() == '/') group.pop_back();
    if (controllers.empty()) {
      note(LeastLimit(root + "/sys/fs/cgroup", group, "memory.max"));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      note(LeastLimit(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return most;
}

int64_t MemoryLimitFrom(const Settings& settings) {
  return settings.OptionalInt("memory.limit_bytes").value_or(MostMemory());
}

MemoryWatch::MemoryWatch(const api::HealthProbe& inner, int64_t limit, Ports ports,
                         std::atomic<LoadLevel>& level, const Clock& clock, Logger& log)
    : inner_(inner),
      limit_(limit),
      ports_(std::move(ports)),
      level_(level),
      clock_(clock),
      log_(log) {}

Status MemoryWatch::CheckRoom() const {
  if (limit_ <= 0) return OkStatus();
  ports_.shrink();  // what only loading needed
  const int64_t resident = ports_.resident();
  const double share = static_cast<double>(resident - (limit_ - kLeastRoom)) / kLeastRoom;
  if (api::LevelOf(share) != LoadLevel::kRed) return OkStatus();
  return ResourceExhausted(
      "out_of_memory",
      fmt::format("memory use is {} MiB before the first request, limit {} MiB "
                  "(--memory-limit-bytes, default: the machine's); load smaller models",
                  resident >> 20, limit_ >> 20));
}

void MemoryWatch::ModelsAreLoaded(int64_t later) {
  ports_.shrink();  // releases memory that only loading needed
  const int64_t planned = ports_.resident() + later;
  planned_.store(planned);
  if (limit_ > 0 && limit_ - planned < kLeastRoom)
    log_.Warn("memory.tight", {{"limit_bytes", limit_}, {"models_bytes", planned}});
}

double MemoryWatch::Share(int64_t resident) const {
  // If the models alone exceed the limit, the limit minus a minimum counts as planned.
  const int64_t planned = std::min(planned_.load(), limit_ - kLeastRoom);
  return static_cast<double>(resident - planned) / static_cast<double>(limit_ - planned);
}

void MemoryWatch::Look() {
  const TimePoint now = clock_.Now();
  if (limit_ <= 0 || planned_.load() == 0 || now < next_look_) return;
  next_look_ = now + kEvery;
  int64_t resident = ports_.resident();
  if (Share(resident) >= kShrink && now >= next_shrink_) {
    ports_.shrink();
    next_shrink_ = now + kShrinkEvery;
    resident = ports_.resident();
  }
  resident_.store(resident);
  const LoadLevel before = level_.load(), next = Next(before, Share(resident));
  if (next == before) return;
  level_.store(next);
  log_.Log(next == LoadLevel::kGreen ? LogLevel::kInfo : LogLevel::kWarn, "memory.level",
           {{"level", api::LoadLevelName(next)},
            {"resident_bytes", resident},
            {"models_bytes", planned_.load()},
            {"limit_bytes", limit_}});
}

MemoryWatch::Figures MemoryWatch::figures() const {
  return {limit_, planned_.load(), resident_.load(), level_.load()};
}

Status MemoryWatch::ready() const {
  RETURN_IF_ERROR(inner_.ready());
  if (level_.load() == LoadLevel::kRed)
    return Unavailable("overloaded", "the server's memory is nearly used up");
  return OkStatus();
}

void IdleMemory::Look(bool busy, TimePoint now) {
  if (busy || looked_ == TimePoint()) looked_ = now;
  if (busy || now - looked_ < kIdle) return;
  looked_ = now;
  const size_t free_bytes = mallinfo2().fordblks;  // of all arenas
  if (free_bytes < kept_ + kWorthIt) {
    kept_ = std::min(kept_, free_bytes);
    return;
  }
  malloc_trim(0);
  kept_ = mallinfo2().fordblks;
}

void EndInOneLineWithoutMemory() { report = std::set_terminate(End); }

void EndBySignalWithoutMemory() { by_signal.store(true); }

void ReportLackOfMemory() { (void)!write(STDERR_FILENO, kLine, sizeof kLine - 1); }

}  // namespace tutti::app
