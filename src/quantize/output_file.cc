#include "quantize/output_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <random>
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
  return InvalidArgument(
      "output_exists",
      fmt::format("{} already exists; use --force to replace it", Quote(path, kNameBytes)));
}

// Parts of the name of the temporary file next to `path`, which identify leftovers of killed runs.
constexpr const char* kMark = ".tutti-";
constexpr const char* kPart = ".part";

std::string TemporaryName(const std::string& path) {
  std::random_device random;
  return fmt::format("{}{}{:08x}{:08x}{}", path, kMark, random(), random(), kPart);
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
  if (path == "-") {
    return InvalidArgument(
        "output_path",
        "output cannot be standard output, because the header is written last; for a "
        "file named - use \"./-\"");
  }
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) return FileError(path, EISDIR);
    // A rename would replace a device or socket, or a link to one (/dev/stdout), by a regular file.
    struct stat target {};
    if (S_ISLNK(found.st_mode) && stat(path.c_str(), &target) == 0) found.st_mode = target.st_mode;
    if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode)) {
      return InvalidArgument("output_path",
                             fmt::format("{} is no regular file", Quote(path, kNameBytes)));
    }
    if (!replace) return Exists(path);
  }
  RemoveAbandoned(FolderOf(path), std::filesystem::path(path).filename().string() + kMark, kPart);
  std::optional<NewFile> file =
      NewFile::Create(TemporaryName(path), NewFile::Meanwhile::kNameless, 0644);
  if (!file) return FileError(path, errno);
  RETURN_IF_ERROR(CheckRoom(file->descriptor(), path, bytes));
  return OutputFile(*std::move(file), path, replace);
}

Status OutputFile::Append(std::span<const std::byte> bytes) {
  return file_.Append(bytes) ? OkStatus() : FileError(path_, errno);
}

Status OutputFile::Keep() {
  switch (file_.KeepAs(path_, replace_)) {
    case NewFile::Kept::kYes:
      return OkStatus();
    case NewFile::Kept::kNot:
      return errno == EEXIST ? Exists(path_) : FileError(path_, errno);
    case NewFile::Kept::kNotFlushed:
      break;
  }
  // Not an error: the folder may be writable but not readable, or its file system cannot flush
  // folders.
  if (errno == EACCES || errno == EINVAL) return OkStatus();
  return Unavailable("output_unflushed",
                     fmt::format("{} is complete, but its folder entry was not flushed: {}; a "
                                 "power loss may remove the file",
                                 Quote(path_, kNameBytes), std::generic_category().message(errno)));
}

}  // namespace tutti::quantize
