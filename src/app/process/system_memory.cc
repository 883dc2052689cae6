#include "app/process/system_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

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

}  // namespace tutti::app
