#include <fcntl.h>
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

}  // namespace

int main(int argc, char** argv) {
  HoldStandardStreams();
  try {
    int status = tutti::cli::Main(argc, argv);
    // What was printed and could not be written is a failure like any other; that nobody reads any
    // more is none.
    errno = 0;
    const bool written =
        std::cout.flush().good() & (std::fflush(stdout) == 0) & (std::ferror(stdout) == 0);
    if (!written && status == 0 && errno != EPIPE) {
      std::perror("tutti: standard output");
      status = 1;
    }
    return status;
  } catch (const std::exception& error) {  // of a library: no thread, no file descriptor, no memory
    std::fprintf(stderr, "tutti: the system refuses what is needed to start: %s\n", error.what());
    return 1;
  }
}
