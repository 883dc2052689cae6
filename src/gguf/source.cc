#include "gguf/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace tutti::gguf {
namespace {

// O_NONBLOCK: opening a FIFO returns at once (and is then refused as not regular).
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string ErrorText(int error) { return std::generic_category().message(error); }

Status OpenError(int error) {
  if (error == ENOENT || error == ENOTDIR) return NotFound("model_not_found", "no such file");
  if (error == EXDEV) return InvalidArgument("model_path", "the path leaves the model folder");
  return InvalidArgument("model_path", "cannot open: " + ErrorText(error));
}

// Component by component, following no link: for kernels that lack openat2.
Result<Descriptor> OpenBeneathByHand(Descriptor folder, std::string_view path) {
  while (true) {
    const size_t slash = path.find('/');
    const std::string part(path.substr(0, slash));
    if (part == ".." || part.empty()) return OpenError(EXDEV);
    const bool last = slash == std::string_view::npos;
    const int flags = kOpenFlags | O_NOFOLLOW | (last ? 0 : O_DIRECTORY);
    Descriptor next(openat(folder.get(), part.c_str(), flags));
    if (!next.ok()) {
      const int error = errno;
      struct stat seen = {};
      const bool link = fstatat(folder.get(), part.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISLNK(seen.st_mode);
      return OpenError(link ? EXDEV : error);
    }
    if (last) return next;
    folder = std::move(next);
    path.remove_prefix(slash + 1);
  }
}

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

// Opening a device can already act on it, so look before; the check that counts is made on the open
// file.
Status LookFirst(int folder, const std::string& path) {
  struct stat seen = {};
  if (fstatat(folder, path.c_str(), &seen, 0) != 0) return OpenError(errno);
  return CheckRegular(seen);
}

Result<Descriptor> OpenBeneath(Descriptor folder, const std::string& path) {
  struct open_how how = {};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof(how));
  if (fd >= 0) return Descriptor(static_cast<int>(fd));
  if (errno == ENOSYS) return OpenBeneathByHand(std::move(folder), path);
  return OpenError(errno);
}

class FileSource final : public Source {
 public:
  FileSource(Descriptor file, const struct stat& seen) : file_(std::move(file)), seen_(seen) {}

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
    return InvalidArgument("gguf_truncated",
                           fmt::format("the file changed while it was read ({} bytes then, {} now)",
                                       seen_.st_size, now.st_size));
  }

 private:
  Status Short(uint64_t at, uint64_t missing) const {
    return InvalidArgument("gguf_truncated",
                           fmt::format("the file ends at byte {}, {} bytes are missing "
                                       "(it had {} when it was opened)",
                                       at, missing, size()));
  }

  const Descriptor file_;
  const struct stat seen_;
};

class Memory final : public Source {
 public:
  explicit Memory(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  uint64_t size() const override { return bytes_.size(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return InvalidArgument("gguf_truncated", "read beyond the end");
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return OkStatus();
  }
  Status CheckUnchanged() const override { return OkStatus(); }

 private:
  const std::vector<std::byte> bytes_;
};

// `beneath` opens a path below a folder.
template <typename Beneath>
Result<std::shared_ptr<const Source>> Open(const std::string& path, const std::string& root,
                                           Beneath beneath) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgument("model_path", "the path is empty or holds a NUL");
  }
  Descriptor folder;
  if (!root.empty()) {
    folder = Descriptor(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder.ok()) return OpenError(errno);
  }
  RETURN_IF_ERROR(LookFirst(root.empty() ? AT_FDCWD : folder.get(), path));
  Descriptor file;
  if (root.empty()) {
    file = Descriptor(open(path.c_str(), kOpenFlags));
    if (!file.ok()) return OpenError(errno);
  } else {
    ASSIGN_OR_RETURN(file, beneath(std::move(folder), path));
  }
  struct stat seen = {};
  if (fstat(file.get(), &seen) != 0) return OpenError(errno);
  RETURN_IF_ERROR(CheckRegular(seen));
  posix_fadvise(file.get(), 0, 0,
                POSIX_FADV_SEQUENTIAL);  // only a hint: its failure changes nothing
  return std::shared_ptr<const Source>(std::make_shared<FileSource>(std::move(file), seen));
}

}  // namespace

Result<std::shared_ptr<const Source>> OpenSource(const std::string& path, const std::string& root) {
  return Open(path, root, OpenBeneath);
}

Result<std::shared_ptr<const Source>> OpenSourceByHand(const std::string& path,
                                                       const std::string& root) {
  CHECK(!root.empty());
  return Open(path, root, OpenBeneathByHand);
}

std::shared_ptr<const Source> MemorySource(std::span<const std::byte> bytes) {
  return std::make_shared<Memory>(bytes);
}

}  // namespace tutti::gguf
