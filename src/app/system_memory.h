// What the system says about memory: of the machine, of the control group that the process is in,
// of the process. Any thread; a few small files of /proc are read.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::app {

class Settings;

// Bytes that could be taken without swapping; 0 = the system does not say.
uint64_t AvailableMemory();

// Bytes of this process that are in memory; 0 = the system does not say.
int64_t ResidentMemory();

// The most bytes that this process can have: the machine's memory, or less by the limit of its
// control group or one above it (memory.max of version 2, memory.limit_in_bytes of version 1;
// Linux, Documentation/admin-guide/cgroup-v2.rst). 0 = the system does not say. `root`: where /proc
// and /sys/fs/cgroup are looked for, for tests.
int64_t MostMemory(const std::string& root = "");

// Bytes that this process may take: memory.limit_bytes where it is set, MostMemory() otherwise.
int64_t MemoryLimitFrom(const Settings& settings);

}  // namespace tutti::app
