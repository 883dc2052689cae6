#include "files/open.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tutti::files {
namespace {

// O_NONBLOCK: opening a FIFO returns at once (and is then refused as not regular).
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

}  // namespace

std::string ErrorText(int error) { return std::generic_category().message(error); }

Status OpenError(int error) {
  if (error == ENOENT || error == ENOTDIR) return NotFound("model_not_found", "no such file");
  if (error == EXDEV) return InvalidArgument("model_path", "the path leaves the model folder");
  return InvalidArgument("model_path", "cannot open: " + ErrorText(error));
}

Status CheckPath(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgument("model_path", "the path is empty or holds a NUL");
  }
  return OkStatus();
}

Result<Descriptor> OpenRoot(const std::string& path) {
  Descriptor folder(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.ok()) return OpenError(errno);
  return folder;
}

Result<Descriptor> OpenAnywhere(int folder, const std::string& path, int flags) {
  Descriptor file(openat(folder, path.c_str(), kOpenFlags | flags));
  if (!file.ok()) return OpenError(errno);
  return file;
}

Result<Descriptor> OpenBeneath(int folder, const std::string& path, int flags) {
  struct open_how how = {};
  how.flags = static_cast<unsigned>(kOpenFlags | flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how));
  if (fd >= 0) return Descriptor(static_cast<int>(fd));
  if (errno == ENOSYS) return OpenBeneathByHand(folder, path, flags);
  return OpenError(errno);
}

Result<Descriptor> OpenBeneathByHand(int folder, const std::string& path, int flags) {
  Descriptor above;  // keeps `folder` open after the first step into the path
  std::string_view rest = path;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string part(rest.substr(0, slash));
    if (part == ".." || part.empty()) return OpenError(EXDEV);
    const bool last = slash == std::string_view::npos;
    const int kind = last ? flags : O_DIRECTORY;
    Descriptor next(openat(folder, part.c_str(), kOpenFlags | O_NOFOLLOW | kind));
    if (!next.ok()) {
      const int error = errno;
      struct stat seen = {};
      const bool link =
          fstatat(folder, part.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(seen.st_mode);
      return OpenError(link ? EXDEV : error);
    }
    if (last) return next;
    above = std::move(next);
    folder = above.get();
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace tutti::files
