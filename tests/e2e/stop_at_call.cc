// Preloaded (LD_PRELOAD): the process ends, or its disk is full, at one call that changes files.
//
// STOP_CALL is the number of the call, from 1, of all threads together; STOP_KIND is `kill`, which
// ends the process before the call (in a write: behind half of the bytes), or `full`, which makes
// this call and all later ones fail with ENOSPC. The number of calls is written to the file that
// STOP_COUNT names when the process exits by itself.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<int> calls{0};
int stop_call = 0;
bool full = false;

__attribute__((constructor)) void ReadOrders() {
  const char* const call = std::getenv("STOP_CALL");
  const char* const kind = std::getenv("STOP_KIND");
  stop_call = call == nullptr ? 0 : std::atoi(call);
  full = kind != nullptr && std::strcmp(kind, "full") == 0;
}

__attribute__((destructor)) void WriteCount() {
  const char* const path = std::getenv("STOP_COUNT");
  if (path == nullptr) return;
  if (std::FILE* const file = std::fopen(path, "w"); file != nullptr) {
    std::fprintf(file, "%d", calls.load());
    std::fclose(file);
  }
}

// Whether this call is to fail; the process may end here.
bool Stops() {
  const int call = ++calls;
  if (stop_call == 0 || call < stop_call) return false;
  if (!full) kill(getpid(), SIGKILL);
  errno = ENOSPC;
  return true;
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) noexcept {
  return Stops() ? -1 : Next<int (*)(const char*, const char*)>("rename")(from, to);
}

int symlink(const char* target, const char* path) noexcept {
  return Stops() ? -1 : Next<int (*)(const char*, const char*)>("symlink")(target, path);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  if (Stops()) return -1;
  return Next<int (*)(int, const char*, int, const char*, int)>("linkat")(from_folder, from,
                                                                          to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return Stops() ? -1 : Next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int unlink(const char* path) noexcept {
  if (full) return Next<int (*)(const char*)>("unlink")(path);  // works on a full disk
  return Stops() ? -1 : Next<int (*)(const char*)>("unlink")(path);
}

int fsync(int fd) { return Stops() ? -1 : Next<int (*)(int)>("fsync")(fd); }

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if ((flags & O_CREAT) != 0 && Stops()) return -1;
  return Next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

ssize_t write(int fd, const void* data, size_t size) {
  const auto next = Next<ssize_t (*)(int, const void*, size_t)>("write");
  struct stat found {};
  if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return next(fd, data, size);
  if (!full && stop_call != 0 && calls + 1 == stop_call) (void)!next(fd, data, size / 2);
  return Stops() ? -1 : next(fd, data, size);
}

}  // extern "C"
