#include "packed/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "files/checksum.h"
#include "files/digest.h"

namespace tutti::packed {

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
    return InvalidArgument(kTruncated, fmt::format("the file has {} of its {} bytes: an "
                                                   "interrupted copy?",
                                                   size, preamble.file_bytes()));
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
