#include "services/batches/disk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tutti::batches {

Status DiskError(int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return Unavailable("storage_full", "the disk of the store is full");
  return Unavailable("storage_error", "the store cannot keep or read this file now: " +
                                          std::generic_category().message(error));
}

int64_t LeftForTheStore(int64_t total_bytes) {
  return std::min(total_bytes / 16, int64_t{64} << 20);
}

Result<DiskFile> DiskFile::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return DiskError(errno);
  return DiskFile(fd, path);
}

DiskFile::DiskFile(DiskFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::exchange(other.path_, "")),
      bytes_(other.bytes_) {}

DiskFile::~DiskFile() {
  if (fd_ >= 0) close(fd_);
  if (!path_.empty()) unlink(path_.c_str());
}

Status DiskFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return DiskError(written < 0 ? errno : EIO);
    bytes.remove_prefix(static_cast<size_t>(written));
    bytes_ += written;
  }
  return OkStatus();
}

Status DiskFile::CheckRoom() const {
  struct statvfs disk {};
  if (fstatvfs(fd_, &disk) != 0) return DiskError(errno);
  const auto block = static_cast<int64_t>(disk.f_frsize);
  if (static_cast<int64_t>(disk.f_bavail) * block <
      LeftForTheStore(static_cast<int64_t>(disk.f_blocks) * block))
    return DiskError(ENOSPC);
  return OkStatus();
}

Status DiskFile::KeepAs(const std::string& path) {
  if (fsync(fd_) != 0) return DiskError(errno);
  if (rename(path_.c_str(), path.c_str()) != 0) return DiskError(errno);
  path_ = path;  // until its name is durable too
  RETURN_IF_ERROR(FlushFolder(std::filesystem::path(path).parent_path().string()));
  path_.clear();
  return OkStatus();
}

Result<std::shared_ptr<const DiskReader>> DiskReader::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return DiskError(errno);
  return std::shared_ptr<const DiskReader>(new DiskReader(fd));
}

DiskReader::~DiskReader() { close(fd_); }

Result<std::string> DiskReader::Read(int64_t offset, int64_t most) const {
  std::string bytes(static_cast<size_t>(most), '\0');
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got =
        pread(fd_, bytes.data() + at, bytes.size() - at, offset + static_cast<int64_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return DiskError(errno);
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

Status FlushFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return DiskError(errno);
  const bool flushed = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  return flushed ? OkStatus() : DiskError(error);
}

}  // namespace tutti::batches
