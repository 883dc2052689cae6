#include "quantize/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/quote.h"

namespace tutti::quantize {
namespace {

constexpr size_t kNameBytes = 255;  // of a path in a message

Status FileError(const std::string& path, int error) {
  const std::string name = Quote(path, kNameBytes);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Unavailable("storage_full", fmt::format("no room for {}: {}; nothing was left there",
                                                   name, std::generic_category().message(error)));
  }
  return InvalidArgument("output_path", fmt::format("cannot write {}: {}", name,
                                                    std::generic_category().message(error)));
}

Status Exists(const std::string& path) {
  return InvalidArgument("output_exists", fmt::format("{} is there already; --force replaces it",
                                                      Quote(path, kNameBytes)));
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// A name of its own beside `path`, for a moment or until Keep.
std::string TemporaryName(const std::string& path) {
  return fmt::format("{}.part-{}", path, getpid());
}

Status CheckRoom(int fd, const std::string& path, uint64_t bytes) {
  struct statvfs disk {};
  if (fstatvfs(fd, &disk) != 0) return FileError(path, errno);
  const uint64_t left = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (left >= bytes) return OkStatus();
  return Unavailable("storage_full",
                     fmt::format("{} would have {} MiB, and its disk has {} MiB left",
                                 Quote(path, kNameBytes), (bytes >> 20) + 1, left >> 20));
}

}  // namespace

Result<OutputFile> OutputFile::Create(const std::string& path, bool replace, uint64_t bytes) {
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) return FileError(path, EISDIR);
    // A rename would put a file in the place of a device or socket.
    if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode)) {
      return InvalidArgument("output_path",
                             fmt::format("{} is no regular file", Quote(path, kNameBytes)));
    }
    if (!replace) return Exists(path);
  }
  const mode_t mode = 0644;
  std::string temporary;
  int fd = open(FolderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    temporary = TemporaryName(path);
    fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  }
  if (fd < 0) return FileError(path, errno);
  OutputFile out(fd, path, std::move(temporary), replace);
  RETURN_IF_ERROR(CheckRoom(fd, path, bytes));
  return Result<OutputFile>(std::move(out));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      replace_(other.replace_),
      bytes_(other.bytes_) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status OutputFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FileError(path_, written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
    bytes_ += static_cast<uint64_t>(written);
  }
  return OkStatus();
}

Status OutputFile::Keep() {
  if (fsync(fd_) != 0) return FileError(path_, errno);
  if (temporary_.empty()) {
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    // A link never replaces: under its own name where nothing may be replaced, else by a detour.
    const std::string name = replace_ ? TemporaryName(path_) : path_;
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return errno == EEXIST ? Exists(name) : FileError(path_, errno);
    }
    if (replace_) temporary_ = name;
  }
  if (!temporary_.empty()) {
    const bool done = replace_ ? rename(temporary_.c_str(), path_.c_str()) == 0
                               : link(temporary_.c_str(), path_.c_str()) == 0;
    if (!done) return errno == EEXIST ? Exists(path_) : FileError(path_, errno);
    if (!replace_) unlink(temporary_.c_str());
    temporary_.clear();
  }
  const int folder = open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return OkStatus();  // a folder that may be written but not read
  const int error = fsync(folder) == 0 ? 0 : errno;
  close(folder);
  return error == 0 || error == EINVAL ? OkStatus() : FileError(path_, error);
}

}  // namespace tutti::quantize
