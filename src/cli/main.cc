#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

#include "app/process/memory.h"
#include "base/threads.h"
#include "cli/command_line.h"

namespace {

// A program started without standard streams must not get a socket in their place.
void HoldStandardStreams() {
  int fd = 0;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) continue;
  if (fd > STDERR_FILENO) close(fd);
}

// The memory of large blocks goes back to the system when they are freed. Left to itself the
// allocator takes the first large block that is freed for a habit, and a few prompts of many
// megabytes made it keep hundreds.
void ReturnLargeBlocks() { mallopt(M_MMAP_THRESHOLD, 256 << 10); }

// A write beyond the process's limit of file sizes (`ulimit -f`) fails as on a full disk, instead
// of ending the process.
void OutlastFileSizeLimit() { std::signal(SIGXFSZ, SIG_IGN); }

bool NobodyReadsOutput() {
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

// Output that could not be written is a failure, except if the reader has closed the pipe.
int CheckOutput() {
  errno = 0;
  const bool printed = std::cout.flush().good();
  const bool flushed = std::fflush(stdout) == 0;
  if ((printed && flushed && std::ferror(stdout) == 0) || errno == EPIPE) return 0;
  if (errno != 0) {
    std::perror("tutti: standard output");
    return 1;
  }
  if (NobodyReadsOutput()) return 0;
  std::fputs("tutti: standard output cannot be written\n", stderr);  // an earlier write failed
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  HoldStandardStreams();
  ReturnLargeBlocks();
  OutlastFileSizeLimit();
  tutti::app::EndInOneLineWithoutMemory();
  tutti::PreferShortTurns();  // and all threads but those that compute
  try {
    const int status = tutti::cli::Main(argc, argv);
    return status != 0 ? status : CheckOutput();
  } catch (const std::bad_alloc&) {
    tutti::app::ReportLackOfMemory();
    return 1;
  } catch (const std::exception& error) {  // of a library: no thread, no file descriptor
    std::fprintf(stderr, "tutti: the system refuses what is needed: %s\n", error.what());
    return 1;
  }
}
