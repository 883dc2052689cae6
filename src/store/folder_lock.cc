#include "store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tutti::store {
namespace {

Status Failed(const std::string& what, int error) {
  return Unavailable("store_failed", what + ": " + std::generic_category().message(error));
}

Status MakeFolder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path(folder);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (!error && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    error.assign(errno, std::generic_category());
  if (!error && !std::filesystem::is_directory(path, error) && !error)
    error.assign(ENOTDIR, std::generic_category());
  return error ? Failed("the store's folder " + folder, error.value()) : OkStatus();
}

std::string Holder(int fd) {
  std::array<char, 32> text{};
  const ssize_t count = pread(fd, text.data(), text.size(), 0);
  std::string digits;
  for (ssize_t i = 0;
       i < count && text[static_cast<size_t>(i)] >= '0' && text[static_cast<size_t>(i)] <= '9'; ++i)
    digits += text[static_cast<size_t>(i)];
  return digits.empty() ? "another process" : "process " + digits;
}

}  // namespace

Result<FolderLock> FolderLock::Take(const std::string& folder) {
  RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = folder + "/lock";
  FolderLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.fd_ < 0) return Failed(path, errno);
  if (flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed(path, errno);
    return Status(StatusCode::kFailedPrecondition, "store_locked",
                  "the store in " + folder + " is in use by " + Holder(lock.fd_));
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(lock.fd_, 0) != 0 ||
      pwrite(lock.fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    return Failed(path, errno);
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace tutti::store
