#include "files/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "files/open.h"

namespace tutti::files {

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
    return Folder(std::move(folder));
  }
  ASSIGN_OR_RETURN(Descriptor folder, OpenBeneath(base, path, O_DIRECTORY));
  return Folder(std::move(folder));
}

Result<std::shared_ptr<const Source>> Folder::OpenSource(const std::string& path,
                                                         std::string_view truncated) const {
  return OpenRegular(descriptor_.get(), path, OpenBeneath, truncated);
}

Result<std::shared_ptr<const Source>> Folder::OpenSourceByHand(const std::string& path,
                                                               std::string_view truncated) const {
  return OpenRegular(descriptor_.get(), path, OpenBeneathByHand, truncated);
}

}  // namespace tutti::files
