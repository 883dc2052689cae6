// Folder: a directory held open, to read several files that belong together.
//
// Files are read from this very directory even if another directory takes its name meanwhile, so a
// model of several files is never read from two versions of its folder. Symbolic links in it are
// the operator's and are followed wherever they lead: a hub's cache, a mounted ConfigMap, a store
// of shared files. A name whose text leads out of the directory is refused, since names come from
// untrusted files. Movable; const members may be called from any thread; closed with the object,
// while sources opened through it stay open.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "files/descriptor.h"
#include "files/source.h"

namespace tutti::files {

class Folder {
 public:
  // With a root, `path` is relative to that folder, and it and the files in it must lie beneath
  // the root, links included. model_not_found when nothing is there, model_path when it is no
  // directory or cannot be opened.
  static Result<Folder> Open(const std::string& path, const std::string& root = "");

  // `path` is relative, without "..". Errors: as of files::OpenSource; model_path for a link whose
  // target is gone too.
  Result<std::shared_ptr<const Source>> OpenSource(const std::string& path,
                                                   std::string_view truncated) const;

 private:
  Folder(Descriptor descriptor, bool confined)
      : descriptor_(std::move(descriptor)), confined_(confined) {}
  Descriptor descriptor_;
  bool confined_;  // it was opened beneath a root
};

}  // namespace tutti::files
