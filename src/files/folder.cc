#include "files/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "files/open.h"

namespace tutti::files {
namespace {

// NAME/blobs of the folder NAME/snapshots/HASH; closed where the folder is no such one.
Descriptor OpenBlobs(int folder) {
  struct stat above = {}, snapshots = {};
  if (fstatat(folder, "..", &above, 0) != 0 ||
      fstatat(folder, "../../snapshots", &snapshots, AT_SYMLINK_NOFOLLOW) != 0 ||
      above.st_dev != snapshots.st_dev || above.st_ino != snapshots.st_ino)
    return Descriptor();
  return Descriptor(openat(folder, "../../blobs", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

// "HASH" where `path` beneath a snapshot is a link to the blob HASH; else "".
std::string BlobOf(int folder, const std::string& path) {
  char target[512];
  const ssize_t length = readlinkat(folder, path.c_str(), target, sizeof(target));
  if (length <= 0 || static_cast<size_t>(length) == sizeof(target)) return "";
  std::string up = "../../";  // from a file in the snapshot itself
  for (const char byte : path) up += byte == '/' ? "../" : "";
  std::string_view text(target, static_cast<size_t>(length));
  if (!text.starts_with(up + "blobs/")) return "";
  text.remove_prefix(up.size() + sizeof("blobs/") - 1);
  const bool name = text.find('/') == std::string_view::npos && text != ".." && text != ".";
  return name ? std::string(text) : "";
}

// `blobs` < 0: the folder is no snapshot.
Result<std::shared_ptr<const Source>> OpenIn(int folder, int blobs, const std::string& path,
                                             Opener opener, std::string_view truncated) {
  auto source = OpenRegular(folder, path, opener, truncated);
  if (source.ok() || blobs < 0) return source;
  const std::string blob = BlobOf(folder, path);
  if (blob.empty()) return source;
  return OpenRegular(blobs, blob, opener, truncated);
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
    Descriptor blobs = OpenBlobs(folder.get());
    return Folder(std::move(folder), std::move(blobs));
  }
  ASSIGN_OR_RETURN(Descriptor folder, OpenBeneath(base, path, O_DIRECTORY));
  return Folder(std::move(folder), Descriptor());
}

Result<std::shared_ptr<const Source>> Folder::OpenSource(const std::string& path,
                                                         std::string_view truncated) const {
  return OpenIn(descriptor_.get(), blobs_.get(), path, OpenBeneath, truncated);
}

Result<std::shared_ptr<const Source>> Folder::OpenSourceByHand(const std::string& path,
                                                               std::string_view truncated) const {
  return OpenIn(descriptor_.get(), blobs_.get(), path, OpenBeneathByHand, truncated);
}

}  // namespace tutti::files
