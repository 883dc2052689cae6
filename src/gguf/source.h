// Where a GGUF's bytes come from: positioned reads that report failure instead of faulting.
//
// A file is never mapped. Another process that truncates a mapped file turns the next access into
// SIGBUS and the server is gone; a read beyond the new end is a Status. Weights are repacked into
// memory of our own at load anyway, so a mapping would save nothing that lasts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tutti::gguf {

// Immutable; ReadAt from any thread.
class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;  // bytes when it was opened
  // Fills `out` from `offset`. gguf_truncated when the bytes are not there (any more), model_path
  // when the device fails.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
  // gguf_truncated when size, times or identity differ from those seen at opening: the bytes read
  // so far may belong to two different files.
  virtual Status CheckUnchanged() const = 0;
};

// Opens a regular file for reading; never blocks on FIFOs or devices. With a root, `path` is
// relative to that folder and must stay beneath it, symbolic links included (on kernels without
// openat2 any link is refused). model_not_found when nothing is there, model_path for everything
// that is not a readable regular file. Messages do not name the path; callers add it where the
// reader may see it.
Result<std::shared_ptr<const Source>> OpenSource(const std::string& path,
                                                 const std::string& root = "");

// The same through component-by-component opening, as kernels without openat2 get it; exposed for
// tests.
Result<std::shared_ptr<const Source>> OpenSourceByHand(const std::string& path,
                                                       const std::string& root);

// Bytes in memory, for tests and fuzzing; copied.
std::shared_ptr<const Source> MemorySource(std::span<const std::byte> bytes);

}  // namespace tutti::gguf
