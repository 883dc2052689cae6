#include "peak_memory.h"

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace tutti::support {
namespace {

// ru_maxrss is inherited; VmHWM can be reset by writing 5 to clear_refs.
int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}

void Require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "PeakGrowth: %s\n", what);
  std::abort();
}

int64_t PeakGrowthOf(const std::function<void()>& fn, bool second_call) {
  int ends[2];
  Require(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    if (second_call) fn();
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5;
    const int64_t before = PeakBytes();
    fn();
    const int64_t grown = PeakBytes() - before;
    Require(before >= 0, "the kernel tells no VmHWM");
    Require(write(ends[1], &grown, sizeof(grown)) == sizeof(grown), "nobody listens");
    _exit(0);
  }
  close(ends[1]);
  int64_t grown = -1;
  const bool told = read(ends[0], &grown, sizeof(grown)) == sizeof(grown);
  close(ends[0]);
  int status = 0;
  Require(waitpid(child, &status, 0) == child, "no child");
  Require(told && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed");
  return grown;
}

}  // namespace

int64_t PeakGrowth(const std::function<void()>& fn) { return PeakGrowthOf(fn, false); }
int64_t PeakGrowthOfSecondCall(const std::function<void()>& fn) { return PeakGrowthOf(fn, true); }

}  // namespace tutti::support
