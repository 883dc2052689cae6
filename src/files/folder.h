// Folder: a directory held open, to read several files that belong together.
//
// What is opened through it stays beneath it, symbolic links included, and comes from this very
// directory even when another one takes its name meanwhile: a model of several files is never read
// from two versions of its folder. Movable; its const members from any thread; closed with the
// object, while sources opened through it live on.
//
// One layout is known by its shape: the cache that the huggingface_hub package keeps, where
// NAME/snapshots/HASH holds links to files in NAME/blobs. Such links, and no others, are followed
// out of the directory.
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
  Folder(Descriptor descriptor, Descriptor blobs)
      : descriptor_(std::move(descriptor)), blobs_(std::move(blobs)) {}
  Descriptor descriptor_;
  Descriptor blobs_;  // of a snapshot of such a cache; else closed
};

}  // namespace tutti::files
