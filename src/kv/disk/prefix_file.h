// The format of a file with consecutive blocks of one prefix.
//
//   offset  size  content
//        0     8  "TUTTIPFX"
//        8     4  version, 1
//       12     4  bytes of the header, a multiple of 64
//       16    16  name of the model and its arithmetic
//       32    16  name of the root: tenant, salt, adapter
//       48    24  PrefixShape, three times 8 bytes
//       72     4  number of the first block in the prefix
//       76     4  blocks, 1 .. kMaxFileBlocks
//       80     4  tokens of the prefix up to the end of the last block
//       84     4  0
//       88     4n the tokens
//              1b parts of each block: 1 window block, 2 state
//                 zeros up to a multiple of 8
//             16b name of each block
//             24b checksum (XXH64) of each block's memory, window block and state; 0 without one
//                 zeros up to the end
//      -8     8   checksum (XXH64) of all that precedes it
//
// The memory of the blocks follows, as BytesOf() describes it. All numbers are little-endian. The
// names are keyed hashes: a file of another folder, model, tenant or salt has other names. A file
// holds all tokens of its prefix, so that it can be compared without any other file.
//
// Pure functions; any thread. The bytes are not trusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kv/prefix_index.h"
#include "kv/prefix_store.h"

namespace tutti::kv {

// Blocks of one file at most. With this, the tokens of a long prefix stay a small part of its
// files.
inline constexpr int kMaxFileBlocks = 64;
// Tokens of a prefix at most: a header of 16 MiB.
inline constexpr int kMaxFileTokens = 1 << 22;
// Bytes of a part of a block at most, so that sums of sizes cannot overflow.
inline constexpr uint64_t kMaxPartBytes = uint64_t{1} << 36;
// Bytes at the beginning of a file from which the size of its header is known.
inline constexpr size_t kHeaderFront = 88;

enum class Part { kBlock, kWindowBlock, kState };

struct PrefixFileHeader {
  Hash128 model{};
  Hash128 root{};
  PrefixShape shape;
  int first_block = 0;
  std::vector<TokenId> tokens;
  std::vector<BlockParts> parts;
  std::vector<Hash128> names;
  std::vector<std::array<uint64_t, 3>> checksums;  // by Part

  int blocks() const { return static_cast<int>(parts.size()); }
  size_t bytes() const;  // of the header
  uint64_t file_bytes() const;
  // Where a part of a block begins in the file.
  uint64_t OffsetOf(int place, Part part) const;
  size_t BytesOfPart(Part part) const {
    return part == Part::kBlock         ? shape.block_bytes
           : part == Part::kWindowBlock ? shape.window_block_bytes
                                        : shape.state_bytes;
  }
  bool Has(int place, Part part) const {
    const BlockParts& p = parts[static_cast<size_t>(place)];
    return part == Part::kBlock || (part == Part::kWindowBlock ? p.window_block : p.state);
  }
};

std::vector<std::byte> EncodeHeader(const PrefixFileHeader& header);

// The size of the header whose first kHeaderFront bytes are given. Errors: prefix_file_damaged.
Result<size_t> HeaderBytes(std::span<const std::byte> front);

// `bytes`: the whole header. Errors: prefix_file_damaged.
Result<PrefixFileHeader> DecodeHeader(std::span<const std::byte> bytes);

}  // namespace tutti::kv
