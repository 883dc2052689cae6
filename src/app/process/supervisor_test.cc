
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>

#include "app/process/memory.h"
#include "app/process/process_signals.h"

namespace tutti::app {
namespace {

// The exit status of `work` in a process of its own, or -1 where a signal ended that.
template <typename Work>
int StatusOf(const Work& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int EndWithoutMemory() {
  std::thread([] { throw std::bad_alloc(); }).join();
  return 3;
}

TEST(LackOfMemory, OnAThreadOfItsOwnEndsTheProcessInAnExit) {
  EXPECT_EQ(StatusOf([] {
              EndInOneLineWithoutMemory();
              return EndWithoutMemory();
            }),
            1);
}

// Regression: the exit counted as intended, and no other worker was started.
TEST(Supervisor, AWorkerWhoseMemoryRanOutIsFollowedByAnother) {
  void* shared = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* starts = new (shared) std::atomic<int>(0);
  EXPECT_EQ(StatusOf([&] {
              EndInOneLineWithoutMemory();
              return Supervise([&] { return starts->fetch_add(1) == 0 ? EndWithoutMemory() : 7; });
            }),
            7);
  EXPECT_EQ(starts->load(), 2);
  munmap(shared, sizeof(std::atomic<int>));
}

// A worker that was refused threads once waited for them after SIGTERM, for ever.
TEST(LastResort, EndsAProcessWhoseThreadsWaitForEver) {
  EXPECT_EQ(StatusOf([] {
              EndAtLatestIn(0);
              while (true) pause();
              return 3;
            }),
            0);
}

}  // namespace
}  // namespace tutti::app
