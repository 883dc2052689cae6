// Converts a decoder to the bytes of a packed checkpoint (packed/file.h).
//
// Functions, each called on one thread, which starts the packing threads. Deterministic: the same
// model gives the same bytes with any number of threads and on any instruction set.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "model/weights.h"

namespace tutti::model {

// The file is `front`, then `weights`' bytes.
struct PackedModel {
  std::vector<std::byte> front;
  std::shared_ptr<const Weights> weights;

  uint64_t file_bytes() const { return front.size() + weights->bytes(); }
};

// `options.fuse` must be true. Errors: as of Weights::Load; packed_header for what the format
// cannot hold.
Result<PackedModel> PackModel(const gguf::File& file, const LoadOptions& options);

}  // namespace tutti::model
