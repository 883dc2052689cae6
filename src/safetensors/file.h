// File: one open, fully validated safetensors file. Tensors are read on demand.
//
// Tensors are copied by positioned reads, never mapped (reason: files/source.h): a read returns
// bytes or a Status even if another process changes the file. A loader reads all it needs, then
// calls CheckUnchanged() once, and keeps no part of the file. Immutable; any thread; closed with
// the last reference. A model of one or more files: safetensors/checkpoint.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "safetensors/header.h"

namespace tutti::safetensors {

class File {
 public:
  // Codes: st_* for the contents; messages do not name the file. Tensor data is not read (see
  // CheckFinite). `source` should answer with kTruncated where it ends too early.
  static Result<std::shared_ptr<const File>> FromSource(std::shared_ptr<const files::Source> source,
                                                        size_t chunk = kJsonChunk);

  const Header& header() const { return header_; }
  std::span<const TensorInfo> tensors() const { return header_.tensors(); }
  const TensorInfo* FindTensor(std::string_view name) const { return header_.FindTensor(name); }

  // Fills `out` with bytes of the tensor from `offset`; the range must lie in the tensor (CHECKed).
  Status Read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const;

  // Fills `out` with elements of the tensor from `first`, in C order; the range must lie in the
  // tensor (CHECKed). F32 unchanged, F16 and BF16 exactly, F64 rounded to the nearest float (values
  // that are too large become infinity); st_shape for any other type, with its name.
  Status ReadFloats(const TensorInfo& tensor, int64_t first, std::span<float> out) const;
  // The whole tensor.
  Result<std::vector<float>> ReadFloats(const TensorInfo& tensor) const;

  // model_nonfinite when a value that ReadFloats gives is NaN or infinite. Reads all of the tensor;
  // nothing of integers, which are always finite. st_shape for a type that ReadFloats does not
  // take.
  Status CheckFinite(const TensorInfo& tensor) const;

  // SHA-256 of everything before the tensor data, in lower-case hex: names the file without reading
  // all of it. Codes as for Read.
  Result<std::string> HeaderDigest() const;

  // st_offsets when the file was written or cut since it was opened. A file replaced by rename is
  // not noticed and does no harm: this one still reads the old contents.
  Status CheckUnchanged() const { return source_->CheckUnchanged(); }

 private:
  File() = default;
  std::shared_ptr<const files::Source> source_;
  Header header_;
};

// The check of CheckFinite over elements that a loader already holds: `first` only names them in
// the message.
Status CheckFiniteFloats(const TensorInfo& tensor, int64_t first, std::span<const float> values);

// Bytes in memory in place of a file, for tests and fuzzing; copied.
std::shared_ptr<const files::Source> MemorySource(std::span<const std::byte> bytes);

}  // namespace tutti::safetensors
