#include "packed/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "files/checksum.h"

namespace tutti::packed {
namespace {

// Offsets of the numbers in the preamble.
enum Place : size_t {
  kAtVersion = 8,
  kAtLayout = 12,
  kAtArithmetic = 16,
  kAtFileBytes = 24,
  kAtDescriptionBytes = 32,
  kAtWholeBytes = 40,
  kAtWeightBytes = 48,
  kAtPieceBytes = 56,
  kAtFrontChecksum = 64,
  kAtReserved = 72,
  kAtChecksum = 120,
};

constexpr uint64_t kDescriptionAlignment = 64;
constexpr uint64_t kWeightsAlignment = 4096;

uint64_t RoundedUp(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

template <typename T>
T NumberAt(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <typename T>
void SetNumber(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

Status BadPreamble(std::string message) {
  return InvalidArgument("packed_header", std::move(message));
}

}  // namespace

std::string_view ArithmeticName(Arithmetic arithmetic) {
  constexpr std::string_view kNames[] = {"int8", "f32", "f16", "bf16"};
  return kNames[static_cast<size_t>(arithmetic)];
}

uint64_t Preamble::pieces() const { return (weight_bytes + kPieceBytes - 1) / kPieceBytes; }

uint64_t Preamble::description_at() const {
  return RoundedUp(kPreambleBytes + pieces() * sizeof(uint64_t), kDescriptionAlignment);
}

uint64_t Preamble::weights_at() const {
  return RoundedUp(description_at() + description_bytes, kWeightsAlignment);
}

uint64_t Preamble::file_bytes() const { return weights_at() + weight_bytes; }

Result<Preamble> ParsePreamble(std::span<const std::byte> bytes) {
  CHECK_EQ(bytes.size(), kPreambleBytes);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return InvalidArgument("packed_magic", "not a packed model");
  // Checked first, since a newer version may have everything else at other offsets.
  const auto version = NumberAt<uint32_t>(bytes, kAtVersion);
  if (version != kVersion) {
    return InvalidArgument(
        "packed_version",
        fmt::format("file format version {}, supported {}; pack the model again with this program, "
                    "or use the one that packed it",
                    version, kVersion));
  }
  if (files::Xxh64(bytes.first(kAtChecksum)) != NumberAt<uint64_t>(bytes, kAtChecksum))
    return InvalidArgument("packed_checksum", "the file's first 128 bytes are damaged");
  const auto arithmetic = NumberAt<uint32_t>(bytes, kAtArithmetic);
  if (arithmetic > static_cast<uint32_t>(Arithmetic::kBf16))
    return BadPreamble(fmt::format("weights of kind {}, which is unknown", arithmetic));
  const auto zeros = bytes.subspan(kAtReserved, kAtChecksum - kAtReserved);
  if (NumberAt<uint32_t>(bytes, kAtArithmetic + 4) != 0 ||
      std::any_of(zeros.begin(), zeros.end(), [](std::byte b) { return b != std::byte{0}; }))
    return BadPreamble("bytes that must be 0 are not");
  Preamble preamble;
  preamble.layout = NumberAt<uint32_t>(bytes, kAtLayout);
  preamble.arithmetic = static_cast<Arithmetic>(arithmetic);
  preamble.description_bytes = NumberAt<uint64_t>(bytes, kAtDescriptionBytes);
  preamble.whole_bytes = NumberAt<uint64_t>(bytes, kAtWholeBytes);
  preamble.weight_bytes = NumberAt<uint64_t>(bytes, kAtWeightBytes);
  preamble.front_checksum = NumberAt<uint64_t>(bytes, kAtFrontChecksum);
  // Each size is checked against its limit first, so that no sum overflows.
  if (preamble.description_bytes == 0 || preamble.description_bytes > kMaxDescriptionBytes ||
      preamble.weight_bytes == 0 || preamble.weight_bytes > kMaxWeightBytes ||
      preamble.whole_bytes < preamble.description_bytes) {
    return BadPreamble(
        fmt::format("a description of {} bytes, of a file of {}, and weights of {} "
                    "cannot be",
                    preamble.description_bytes, preamble.whole_bytes, preamble.weight_bytes));
  }
  if (const auto piece = NumberAt<uint64_t>(bytes, kAtPieceBytes); piece != kPieceBytes)
    return BadPreamble(fmt::format("pieces of {} bytes; this version has {}", piece, kPieceBytes));
  if (const auto stated = NumberAt<uint64_t>(bytes, kAtFileBytes); stated != preamble.file_bytes())
    return BadPreamble(
        fmt::format("{} bytes are stated, its parts have {}", stated, preamble.file_bytes()));
  return preamble;
}

std::vector<std::byte> MakeFront(Preamble preamble, std::span<const std::byte> description,
                                 std::span<const std::byte> weights) {
  CHECK_EQ(description.size(), preamble.description_bytes);
  CHECK_EQ(weights.size(), preamble.weight_bytes);
  std::vector<std::byte> front(static_cast<size_t>(preamble.weights_at()));
  for (size_t i = 0; i < preamble.pieces(); ++i) {
    const size_t at = i * kPieceBytes;
    const auto piece = weights.subspan(at, std::min<size_t>(kPieceBytes, weights.size() - at));
    SetNumber(front, kPreambleBytes + i * sizeof(uint64_t), files::Xxh64(piece));
  }
  std::memcpy(front.data() + preamble.description_at(), description.data(), description.size());

  std::memcpy(front.data(), kMagic.data(), kMagic.size());
  SetNumber(front, kAtVersion, kVersion);
  SetNumber(front, kAtLayout, preamble.layout);
  SetNumber(front, kAtArithmetic, static_cast<uint32_t>(preamble.arithmetic));
  SetNumber(front, kAtFileBytes, preamble.file_bytes());
  SetNumber(front, kAtDescriptionBytes, preamble.description_bytes);
  SetNumber(front, kAtWholeBytes, preamble.whole_bytes);
  SetNumber(front, kAtWeightBytes, preamble.weight_bytes);
  SetNumber(front, kAtPieceBytes, kPieceBytes);
  SetNumber(front, kAtFrontChecksum, files::Xxh64(std::span(front).subspan(kPreambleBytes)));
  SetNumber(front, kAtChecksum, files::Xxh64(std::span(front).first(kAtChecksum)));
  return front;
}

}  // namespace tutti::packed
