// The format of a file with the record of a pinned prefix.
//
//   offset  size  content
//        0     8  "TUTTIPIN"
//        8     4  version, 1
//       12     4  bytes of the adapter's digest
//       16    16  name of the model and its arithmetic
//       32     8  time of expiry, milliseconds since 1970
//       40    16  bytes of id, tenant and salt, and number of tokens, 4 bytes each
//       56        id, tenant, salt, digest of the adapter, tokens (4 bytes each)
//       -8     8  checksum (XXH64) of all that precedes it
//
// Pure functions; any thread. The bytes are not trusted.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/prefix_index.h"
#include "kv/prefix_store.h"

namespace tutti::kv {

inline constexpr size_t kMaxPinFileBytes = size_t{32} << 20;

std::vector<std::byte> EncodePin(const Hash128& model, const PinRecord& record);

struct PinFile {
  Hash128 model{};
  PinRecord record;
};
// Errors: prefix_file_damaged.
Result<PinFile> DecodePin(std::span<const std::byte> bytes);

}  // namespace tutti::kv
