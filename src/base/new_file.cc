#include "base/new_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tutti {
namespace {

// Whether the error means that the file system does not support the operation.
bool Lacking(int error) {
  return error == EINVAL || error == ENOSYS || error == EPERM || error == EOPNOTSUPP ||
         error == EMLINK;
}

// Renames without replacing an existing file. Tries three ways, since FAT and many network file
// systems have no hard links, and others have no such rename.
bool MoveBeside(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (!Lacking(errno)) return false;
  if (link(from.c_str(), to.c_str()) == 0) {
    unlink(from.c_str());
    return true;
  }
  if (!Lacking(errno)) return false;
  struct stat found {};
  if (lstat(to.c_str(), &found) == 0) {
    errno = EEXIST;
    return false;
  }
  return errno == ENOENT && rename(from.c_str(), to.c_str()) == 0;
}

// Locks the file, so that RemoveAbandoned of other processes leaves it alone. False if one removed
// it first. On a file system without locks RemoveAbandoned removes nothing.
bool Hold(int fd) {
  while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat made {};
  return fstat(fd, &made) != 0 || made.st_nlink > 0;
}

}  // namespace

std::optional<NewFile> NewFile::Create(std::string temporary, Meanwhile meanwhile, mode_t mode) {
  if (meanwhile == Meanwhile::kNameless) {
    const int fd = open(FolderOf(temporary).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (fd >= 0) {
      Hold(fd);  // for when it has a name
      return NewFile(fd, std::move(temporary), false);
    }
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return std::nullopt;
  }
  while (true) {
    const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) return std::nullopt;
    if (Hold(fd)) return NewFile(fd, std::move(temporary), true);
    close(fd);
  }
}

NewFile::NewFile(NewFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      temporary_(std::move(other.temporary_)),
      named_(std::exchange(other.named_, false)),
      bytes_(other.bytes_) {}

NewFile::~NewFile() {
  if (named_) unlink(temporary_.c_str());
  if (fd_ >= 0) close(fd_);
}

bool NewFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = EIO;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
    bytes_ += static_cast<uint64_t>(written);
  }
  return true;
}

NewFile::Kept NewFile::KeepAs(const std::string& path, bool replace, Flush flush) {
  if (flush == Flush::kYes && fsync(fd_) != 0) return Kept::kNot;
  bool kept = false;
  if (!named_) {
    const std::string self = "/proc/self/fd/" + std::to_string(fd_);
    const auto link_as = [&](const std::string& name) {
      return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    // A link cannot replace a file: with `replace`, link under the temporary name, then rename.
    kept = link_as(path);
    if (!kept && !(errno == EEXIST && replace)) return Kept::kNot;
    if (!kept && !link_as(temporary_)) return Kept::kNot;
    named_ = !kept;
  }
  if (!kept) {
    kept = replace ? rename(temporary_.c_str(), path.c_str()) == 0 : MoveBeside(temporary_, path);
    if (!kept) return Kept::kNot;
    named_ = false;
  }
  if (flush == Flush::kNo) return Kept::kYes;
  return FlushFolder(FolderOf(path)) ? Kept::kYes : Kept::kNotFlushed;
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

bool FlushFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool flushed = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  errno = error;
  return flushed;
}

void RemoveAbandoned(const std::string& folder, const std::string& begin, const std::string& end) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string(), name = entry->path().filename().string();
    const bool ours =
        name.size() >= begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
    if (!ours || !entry->is_regular_file(error) || entry->is_symlink(error)) continue;
    const int fd = open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(fd);
  }
}

}  // namespace tutti
