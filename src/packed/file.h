// The format of Tutti's packed checkpoint: a model's weights in their in-memory layout, so that a
// start reads them once, in order, and computes only checksums.
//
// Numbers are little-endian. Every byte of a file is covered by a checksum (files/digest.h), and
// every place in it follows from the sizes in the preamble: a file of these contents has one form.
//
//   0        preamble, 128 bytes:
//            0    8 bytes  0x89 "TUTTIP" 0x0A
//            8    u32      version of this format: 1
//            12   u32      version of the weights' layout (model/weights.h)
//            16   u32      what the weights are computed in: 0 int8, 1 f32, 2 f16, 3 bf16
//            20   u32      0
//            24   u64      bytes of the file
//            32   u64      bytes of the description
//            40   u64      bytes of the GGUF that the description begins
//            48   u64      bytes of the weights
//            56   u64      bytes of a piece of the weights; the last one may be shorter
//            64   u64      checksum of bytes 128 to the weights' beginning
//            72   48 bytes 0
//            120  u64      checksum of bytes 0 to 120
//   128      u64 each: checksums of the pieces
//   64 x     the description: the front of a GGUF with the model's metadata and tokenizer and the
//            tensors the weights were made of, up to those tensors' data; the one tensor whose data
//            is needed (rope_freqs.weight) comes first there and is part of the description
//   4096 x   the weights, to the end of the file
//
// Gaps before a multiple are zeros. A reader refuses versions it does not know; a change that old
// readers would misread is a new version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "gguf/file.h"

namespace tutti::packed {

inline constexpr std::string_view kMagic = "\x89TUTTIP\n";
inline constexpr uint32_t kVersion = 1;
inline constexpr uint64_t kPreambleBytes = 128;
// Small, so that a piece is still in a core's cache when its checksum is computed.
inline constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
// Maximum size of the description: ten times that of the largest known vocabulary.
inline constexpr uint64_t kMaxDescriptionBytes = uint64_t{256} << 20;
inline constexpr uint64_t kMaxWeightBytes = uint64_t{1} << 42;

// The code of a file that ends too early or changes while it is read.
inline constexpr std::string_view kTruncated = "packed_truncated";

// The arithmetic that the weights are packed for; the numbers are those of the format.
enum class Arithmetic : uint32_t { kInt8 = 0, kF32 = 1, kF16 = 2, kBf16 = 3 };
std::string_view ArithmeticName(Arithmetic arithmetic);  // "int8", "f32", ...

struct Preamble {
  uint32_t layout = 0;
  Arithmetic arithmetic = Arithmetic::kInt8;
  uint64_t description_bytes = 0;
  uint64_t whole_bytes = 0;  // of the GGUF that the description begins
  uint64_t weight_bytes = 0;
  uint64_t front_checksum = 0;

  // Places in the file, which follow from the above.
  uint64_t pieces() const;
  uint64_t description_at() const;
  uint64_t weights_at() const;
  uint64_t file_bytes() const;
};

// Parses the first kPreambleBytes of a file. Errors: packed_magic, packed_version, packed_checksum,
// packed_header.
Result<Preamble> ParsePreamble(std::span<const std::byte> bytes);

// Everything before the weights. `preamble`: all fields but its checksum; the sizes of
// `description` and `weights` must match it.
std::vector<std::byte> MakeFront(Preamble preamble, std::span<const std::byte> description,
                                 std::span<const std::byte> weights);

// Whether the file at `path` begins as a packed checkpoint does; false too where it cannot be read.
bool IsPacked(const std::string& path);

// An open packed checkpoint. Everything except the weights is validated when the file is opened;
// each piece of the weights is validated when it is read.
//
// Nothing is mapped (reason: files/source.h): a read returns the bytes that were packed or a Status
// even if another process changes the file. Immutable; any thread; closed with the last reference.
class File {
 public:
  // Errors: packed_magic, packed_version, packed_checksum, packed_header, packed_truncated for the
  // contents, gguf_* for the description's; model_path, model_not_found.
  static Result<std::shared_ptr<const File>> Open(const std::string& path);
  static Result<std::shared_ptr<const File>> FromSource(
      std::shared_ptr<const files::Source> source);

  const Preamble& preamble() const { return preamble_; }
  // Metadata, tokenizer and the table of tensors. The tensors' bytes cannot be read from it, but
  // for those that are described in whole.
  const std::shared_ptr<const gguf::File>& description() const { return description_; }

  // One piece of the weights, piece `number` of preamble().pieces(); `out` has its size. Errors:
  // packed_checksum when the bytes are not those that were packed, packed_truncated, model_path.
  Status ReadPiece(uint64_t number, std::span<std::byte> out) const;
  uint64_t PieceBytes(uint64_t number) const;

  // SHA-256, hex, of everything before the weights, which includes their checksums: it identifies
  // the weights without reading them. Errors: packed_truncated, model_path.
  Result<std::string> ContentDigest() const;
  // packed_truncated when the file was written or cut since it was opened.
  Status CheckUnchanged() const { return source_->CheckUnchanged(); }

 private:
  File() = default;
  std::shared_ptr<const files::Source> source_;
  Preamble preamble_;
  std::vector<uint64_t> checksums_;  // of the pieces
  std::shared_ptr<const gguf::File> description_;
};

}  // namespace tutti::packed
