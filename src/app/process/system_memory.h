// Memory of the machine, of the process's control group and of the process. Any thread; reads a few
// small files of /proc.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::app {

class Settings;

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

}  // namespace tutti::app
