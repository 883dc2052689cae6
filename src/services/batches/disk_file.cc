#include "services/batches/disk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
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
  std::optional<NewFile> file = NewFile::Create(path, NewFile::Meanwhile::kNamed, 0600);
  if (!file) return DiskError(errno);
  return DiskFile(*std::move(file));
}

Status DiskFile::Append(std::string_view bytes) {
  return file_.Append(std::as_bytes(std::span(bytes))) ? OkStatus() : DiskError(errno);
}

Status DiskFile::CheckRoom() const {
  struct statvfs disk {};
  if (fstatvfs(file_.descriptor(), &disk) != 0) return DiskError(errno);
  const auto block = static_cast<int64_t>(disk.f_frsize);
  if (static_cast<int64_t>(disk.f_bavail) * block <
      LeftForTheStore(static_cast<int64_t>(disk.f_blocks) * block))
    return DiskError(ENOSPC);
  return OkStatus();
}

Status DiskFile::KeepAs(const std::string& path) {
  const NewFile::Kept kept = file_.KeepAs(path, true);
  if (kept == NewFile::Kept::kYes) return OkStatus();
  const int error = errno;
  if (kept == NewFile::Kept::kNotFlushed) unlink(path.c_str());  // until its name is durable too
  return DiskError(error);
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
  return tutti::FlushFolder(folder) ? OkStatus() : DiskError(errno);
}

}  // namespace tutti::batches
