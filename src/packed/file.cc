#include "packed/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "files/digest.h"

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

template <typename... Args>
Status BadPreamble(fmt::format_string<Args...> format, Args&&... args) {
  return InvalidArgument("packed_header", fmt::format(format, std::forward<Args>(args)...));
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
    return InvalidArgument("packed_version",
                           fmt::format("file format version {}, supported {}; pack the model again "
                                       "with this program, or use the one that packed it",
                                       version, kVersion));
  }
  if (files::Xxh64(bytes.first(kAtChecksum)) != NumberAt<uint64_t>(bytes, kAtChecksum))
    return InvalidArgument("packed_checksum", "the file's first 128 bytes are damaged");
  const auto arithmetic = NumberAt<uint32_t>(bytes, kAtArithmetic);
  if (arithmetic > static_cast<uint32_t>(Arithmetic::kBf16))
    return BadPreamble("weights of kind {}, which is unknown", arithmetic);
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
    return BadPreamble("a description of {} bytes, of a file of {}, and weights of {} cannot be",
                       preamble.description_bytes, preamble.whole_bytes, preamble.weight_bytes);
  }
  if (const auto piece = NumberAt<uint64_t>(bytes, kAtPieceBytes); piece != kPieceBytes)
    return BadPreamble("pieces of {} bytes; this version has {}", piece, kPieceBytes);
  if (const auto stated = NumberAt<uint64_t>(bytes, kAtFileBytes); stated != preamble.file_bytes())
    return BadPreamble("{} bytes are stated, its parts have {}", stated, preamble.file_bytes());
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

bool IsPacked(const std::string& path) {
  std::array<std::byte, kMagic.size()> begin;
  const auto source = files::OpenSource(path, "", kTruncated);
  return source.ok() && (*source)->ReadAt(0, begin).ok() &&
         std::memcmp(begin.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<std::shared_ptr<const File>> File::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const files::Source> source,
                   files::OpenSource(path, "", kTruncated));
  return FromSource(std::move(source));
}

Result<std::shared_ptr<const File>> File::FromSource(std::shared_ptr<const files::Source> source) {
  std::shared_ptr<File> file(new File);
  file->source_ = std::move(source);
  std::array<std::byte, kPreambleBytes> begin;
  RETURN_IF_ERROR(file->source_->ReadAt(0, begin));
  ASSIGN_OR_RETURN(file->preamble_, ParsePreamble(begin));
  const Preamble& preamble = file->preamble_;
  const uint64_t size = file->source_->size();
  if (size < preamble.file_bytes()) {
    return InvalidArgument(
        kTruncated, fmt::format("the file has {} of its {} bytes: an interrupted copy?", size,
                                preamble.file_bytes()));
  }
  if (size > preamble.file_bytes()) {
    return InvalidArgument("packed_header", fmt::format("the file has {} bytes and should have {}",
                                                        size, preamble.file_bytes()));
  }
  // As many bytes are in the file.
  std::vector<std::byte> front(static_cast<size_t>(preamble.weights_at() - kPreambleBytes));
  RETURN_IF_ERROR(file->source_->ReadAt(kPreambleBytes, front));
  if (files::Xxh64(front) != preamble.front_checksum) {
    return InvalidArgument("packed_checksum",
                           "what stands before the weights is not what was written: damaged");
  }
  file->checksums_.resize(static_cast<size_t>(preamble.pieces()));
  std::memcpy(file->checksums_.data(), front.data(), file->checksums_.size() * sizeof(uint64_t));
  const auto description =
      std::span(front).subspan(static_cast<size_t>(preamble.description_at() - kPreambleBytes),
                               static_cast<size_t>(preamble.description_bytes));
  ASSIGN_OR_RETURN(file->description_,
                   gguf::File::FromFront(files::MemorySource(description, "packed_header"),
                                         preamble.whole_bytes));
  return std::shared_ptr<const File>(std::move(file));
}

uint64_t File::PieceBytes(uint64_t number) const {
  CHECK_LT(number, preamble_.pieces());
  return std::min(kPieceBytes, preamble_.weight_bytes - number * kPieceBytes);
}

Status File::ReadPiece(uint64_t number, std::span<std::byte> out) const {
  CHECK_EQ(out.size(), PieceBytes(number));
  const uint64_t at = preamble_.weights_at() + number * kPieceBytes;
  RETURN_IF_ERROR(source_->ReadAt(at, out));
  if (files::Xxh64(out) == checksums_[static_cast<size_t>(number)]) return OkStatus();
  return InvalidArgument("packed_checksum",
                         fmt::format("weights from byte {} to {} are not what was written: damaged",
                                     at, at + out.size()));
}

Result<std::string> File::ContentDigest() const {
  return files::DigestFront(*source_, preamble_.weights_at());
}

}  // namespace tutti::packed
