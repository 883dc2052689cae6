// Folder: a directory held open, to read several files that belong together.
//
// What is opened through it stays beneath it, symbolic links included, and comes from this very
// directory even when another one takes its name meanwhile: a model of several files is never read
// from two versions of its folder. Movable; its const members from any thread; closed with the
// object, while sources opened through it live on.
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
  // With a root, `path` is relative to that folder and must stay beneath it. model_not_found when
  // nothing is there, model_path when it is no directory or cannot be opened.
  static Result<Folder> Open(const std::string& path, const std::string& root = "");

  // As files::OpenSource, with this folder as root.
  Result<std::shared_ptr<const Source>> OpenSource(const std::string& path,
                                                   std::string_view truncated) const;

  // The same through component-by-component opening, as kernels without openat2 get it; exposed for
  // tests.
  Result<std::shared_ptr<const Source>> OpenSourceByHand(const std::string& path,
                                                         std::string_view truncated) const;

 private:
  explicit Folder(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

}  // namespace tutti::files
