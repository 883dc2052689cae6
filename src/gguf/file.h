// File: an open, fully validated GGUF. Metadata is in memory; tensors are read on demand.
//
// Tensors are copied by positioned reads, never mapped (reason: files/source.h): a read returns
// bytes or a Status even if another process changes the file. A loader reads all it needs, then
// calls CheckUnchanged() once, and keeps no part of the file. Immutable; any thread; closed with
// the last reference.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "gguf/header.h"
#include "gguf/metadata.h"

namespace tutti::gguf {

class File {
 public:
  // Codes: gguf_* for the contents, model_path and model_not_found for the path; messages do not
  // name it. `root` as in files::OpenSource. Tensor data is not read (see CheckFinite). Of a model
  // that is split, `path` is the first part's, and all are read as one file (split.h).
  static Result<std::shared_ptr<const File>> Open(const std::string& path,
                                                  const std::string& root = "");
  static Result<std::shared_ptr<const File>> FromSource(
      std::shared_ptr<const files::Source> source);
  // Opens the beginning of a file of `file_bytes`: metadata and tensor table must be whole. Reading
  // tensor data beyond `front` returns the code of `front` for missing bytes.
  static Result<std::shared_ptr<const File>> FromFront(std::shared_ptr<const files::Source> front,
                                                       uint64_t file_bytes);

  const Header& header() const { return header_; }
  std::span<const TensorInfo> tensors() const { return header_.tensors(); }
  const TensorInfo* FindTensor(std::string_view name) const { return header_.FindTensor(name); }

  // Fills `out` with bytes of the tensor from `offset`; the range must lie in the tensor (CHECKed).
  Status Read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const;

  // The whole tensor as floats, row after row: for norms, biases and tests.
  Result<std::vector<float>> ReadFloats(const TensorInfo& tensor) const;

  // model_nonfinite when a value or a block scale of the tensor is NaN or infinite. Reads all of
  // it.
  Status CheckFinite(const TensorInfo& tensor) const;

  // SHA-256 of everything before the tensor data, in lower-case hex: names the model without
  // reading all of it. Codes as for Read.
  Result<std::string> HeaderDigest() const;

  // SHA-256 of the whole file, which it reads: distinguishes models by their weights too.
  Result<std::string> ContentDigest() const;

  // gguf_truncated when the file was written or cut since Open. A file replaced by rename is not
  // noticed and does no harm: this one still reads the old contents.
  Status CheckUnchanged() const { return source_->CheckUnchanged(); }

 private:
  File() = default;
  std::shared_ptr<const files::Source> source_;
  Header header_;
};

// Bytes in memory in place of a file, for tests and fuzzing; copied.
std::shared_ptr<const files::Source> MemorySource(std::span<const std::byte> bytes);

}  // namespace tutti::gguf
