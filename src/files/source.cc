#include "files/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/quote.h"
#include "files/open.h"

namespace tutti::files {
namespace {

std::string_view KindName(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "not a regular file";
}

Status CheckRegular(const struct stat& seen) {
  if (S_ISREG(seen.st_mode)) return OkStatus();
  return InvalidArgument("model_path", fmt::format("this is {}, a model must be a regular file",
                                                   KindName(seen.st_mode)));
}

class FileSource final : public Source {
 public:
  FileSource(Descriptor file, const struct stat& seen, std::string_view truncated)
      : file_(std::move(file)), seen_(seen), truncated_(truncated) {}

  uint64_t size() const override { return static_cast<uint64_t>(seen_.st_size); }

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      const uint64_t at = offset + done;
      if (at >= size()) return Short(at, out.size() - done);
      // One call transfers at most about 2 GiB.
      const size_t want = std::min<uint64_t>({out.size() - done, size() - at, uint64_t{1} << 30});
      const ssize_t got = pread(file_.get(), out.data() + done, want, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return InvalidArgument("model_path", "cannot read: " + ErrorText(errno));
      if (got == 0) return Short(at, out.size() - done);
      done += static_cast<size_t>(got);
    }
    return OkStatus();
  }

  Status CheckUnchanged() const override {
    struct stat now = {};
    if (fstat(file_.get(), &now) != 0) {
      return InvalidArgument("model_path", "cannot examine: " + ErrorText(errno));
    }
    const bool same = now.st_size == seen_.st_size && now.st_mtim.tv_sec == seen_.st_mtim.tv_sec &&
                      now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec;
    if (same) return OkStatus();
    return InvalidArgument(truncated_,
                           fmt::format("the file changed while it was read ({} bytes then, {} now)",
                                       seen_.st_size, now.st_size));
  }

 private:
  Status Short(uint64_t at, uint64_t missing) const {
    return InvalidArgument(truncated_, fmt::format("the file ends at byte {}, {} bytes are missing "
                                                   "(it had {} when it was opened)",
                                                   at, missing, size()));
  }

  const Descriptor file_;
  const struct stat seen_;
  const std::string truncated_;
};

class Memory final : public Source {
 public:
  Memory(std::span<const std::byte> bytes, std::string_view truncated)
      : bytes_(bytes.begin(), bytes.end()), truncated_(truncated) {}
  uint64_t size() const override { return bytes_.size(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return InvalidArgument(truncated_, "read beyond the end");
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return OkStatus();
  }
  Status CheckUnchanged() const override { return OkStatus(); }

 private:
  const std::vector<std::byte> bytes_;
  const std::string truncated_;
};

// Whether the text of the path leads out of its folder, without looking at links.
bool LeadsOut(std::string_view path) {
  if (path.starts_with('/')) return true;
  while (true) {
    const size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

Result<std::shared_ptr<const Source>> OpenRegular(int folder, const std::string& path,
                                                  Opener opener, std::string_view truncated) {
  RETURN_IF_ERROR(CheckPath(path));
  // The type is checked before opening, since opening a device may have effects, and again on the
  // open file, which is the check that counts.
  struct stat seen = {};
  if (fstatat(folder, path.c_str(), &seen, 0) != 0) return OpenError(errno);
  RETURN_IF_ERROR(CheckRegular(seen));
  ASSIGN_OR_RETURN(Descriptor file, opener(folder, path, 0));
  if (fstat(file.get(), &seen) != 0) return OpenError(errno);
  RETURN_IF_ERROR(CheckRegular(seen));
  posix_fadvise(file.get(), 0, 0,
                POSIX_FADV_SEQUENTIAL);  // only a hint: its failure changes nothing
  return std::shared_ptr<const Source>(
      std::make_shared<FileSource>(std::move(file), seen, truncated));
}

Result<std::shared_ptr<const Source>> OpenSource(const std::string& path, const std::string& root,
                                                 std::string_view truncated) {
  if (root.empty()) return OpenRegular(AT_FDCWD, path, OpenAnywhere, truncated);
  RETURN_IF_ERROR(CheckPath(path));  // before the root is looked at
  ASSIGN_OR_RETURN(const Descriptor folder, OpenRoot(root));
  return OpenRegular(folder.get(), path, OpenBeneath, truncated);
}

std::shared_ptr<const Source> MemorySource(std::span<const std::byte> bytes,
                                           std::string_view truncated) {
  return std::make_shared<Memory>(bytes, truncated);
}

Status ReadTensor(const Source& source, std::string_view tensor, uint64_t begin, uint64_t bytes,
                  uint64_t offset, std::span<std::byte> out) {
  CHECK(offset <= bytes && out.size() <= bytes - offset)
      << "bytes " << offset << " + " << out.size() << " of " << tensor;
  Status status = source.ReadAt(begin + offset, out);
  if (status.ok()) return status;
  return std::move(status).WithContext(fmt::format("tensor {}", Quote(tensor)));
}

Result<std::string> ReadAll(const Source& source, uint64_t limit, std::string_view too_large) {
  if (source.size() > limit) {
    return InvalidArgument(
        too_large, fmt::format("the file has {} bytes; the limit is {}", source.size(), limit));
  }
  std::string text(static_cast<size_t>(source.size()), '\0');
  RETURN_IF_ERROR(source.ReadAt(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<Folder> Folder::Open(const std::string& path, const std::string& root) {
  RETURN_IF_ERROR(CheckPath(path));
  Descriptor above;
  if (!root.empty()) {
    ASSIGN_OR_RETURN(above, OpenRoot(root));
  }
  struct stat seen = {};
  const int base = root.empty() ? AT_FDCWD : above.get();
  if (fstatat(base, path.c_str(), &seen, 0) == 0 && !S_ISDIR(seen.st_mode)) {
    return InvalidArgument("model_path", "this is no folder");
  }
  if (root.empty()) {
    ASSIGN_OR_RETURN(Descriptor folder, OpenRoot(path));
    return Folder(std::move(folder), false);
  }
  ASSIGN_OR_RETURN(Descriptor folder, OpenBeneath(base, path, O_DIRECTORY));
  return Folder(std::move(folder), true);
}

Result<std::shared_ptr<const Source>> Folder::OpenSource(const std::string& path,
                                                         std::string_view truncated) const {
  if (confined_) return OpenRegular(descriptor_.get(), path, OpenBeneath, truncated);
  if (LeadsOut(path)) return OpenError(EXDEV);
  auto source = OpenRegular(descriptor_.get(), path, OpenAnywhere, truncated);
  struct stat seen = {};
  if (!source.ok() && source.status().reason() == "model_not_found" &&
      fstatat(descriptor_.get(), path.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISLNK(seen.st_mode)) {
    return InvalidArgument("model_path",
                           "this is a link to a file that is gone; fetch the model again");
  }
  return source;
}

}  // namespace tutti::files
