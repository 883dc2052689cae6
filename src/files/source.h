// Source and Folder: the bytes of a model file, by positioned reads that return errors instead of
// faulting.
//
// A file is never mapped. Another process that truncates a mapped file turns the next access into
// SIGBUS and the server is gone; a read beyond the new end is a Status. Weights are repacked into
// memory of our own at load anyway, so a mapping would save nothing that lasts.
//
// A file that ends too early is a fault of its format, and each format has a code for it: the
// caller that opens a source names the code (`truncated`, such as gguf_truncated), and reads beyond
// the end return it. Messages never contain the path; callers add it where the reader may see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/descriptor.h"
#include "base/status.h"

namespace tutti::files {

// Immutable; ReadAt from any thread.
class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;  // bytes when it was opened
  // Fills `out` from `offset`. The code `truncated` when the bytes are not there (any more),
  // model_path when the device fails.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
  // The code `truncated` when size, times or identity differ from those seen at opening: the bytes
  // read so far may belong to two different files.
  virtual Status CheckUnchanged() const = 0;
};

// Opens a regular file for reading; never blocks on FIFOs or devices. With a root, `path` is
// relative to that folder and must stay beneath it, symbolic links included (on kernels without
// openat2 any link is refused). model_not_found when nothing is there, model_path for everything
// that is not a readable regular file. To open several files of one folder: Folder.
Result<std::shared_ptr<const Source>> OpenSource(const std::string& path, const std::string& root,
                                                 std::string_view truncated);

// Bytes in memory, for tests and fuzzing; copied.
std::shared_ptr<const Source> MemorySource(std::span<const std::byte> bytes,
                                           std::string_view truncated);

// All of it, if it has at most `limit` bytes; otherwise `too_large` with the numbers.
Result<std::string> ReadAll(const Source& source, uint64_t limit, std::string_view too_large);

// Fills `out` with bytes from `offset` of the tensor that lies in `bytes` bytes from `begin`; the
// range must lie in the tensor (CHECKed). Errors: as of ReadAt, with the tensor's name.
Status ReadTensor(const Source& source, std::string_view tensor, uint64_t begin, uint64_t bytes,
                  uint64_t offset, std::span<std::byte> out);

// A directory held open, to read several files that belong together.
//
// Files are read from this very directory even if another directory takes its name meanwhile, so a
// model of several files is never read from two versions of its folder. Symbolic links in it are
// the operator's and are followed wherever they lead: a hub's cache, a mounted ConfigMap, a store
// of shared files. A name whose text leads out of the directory is refused, since names come from
// untrusted files. Movable; const members may be called from any thread; closed with the object,
// while sources opened through it stay open.
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
