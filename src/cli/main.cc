#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>

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

}  // namespace

int main(int argc, char** argv) {
  HoldStandardStreams();
  ReturnLargeBlocks();
  try {
    int status = tutti::cli::Main(argc, argv);
    // What was printed and could not be written is a failure like any other; that nobody reads any
    // more is none.
    errno = 0;
    const bool printed = std::cout.flush().good();
    const bool flushed = std::fflush(stdout) == 0;
    const bool written = printed && flushed && std::ferror(stdout) == 0;
    if (!written && status == 0 && errno != EPIPE) {
      std::perror("tutti: standard output");
      status = 1;
    }
    return status;
  } catch (const std::exception& error) {  // of a library: no thread, no file descriptor, no memory
    std::fprintf(stderr, "tutti: the system refuses what is needed: %s\n", error.what());
    return 1;
  }
}
