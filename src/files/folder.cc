#include "files/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "files/open.h"

namespace tutti::files {
namespace {

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
