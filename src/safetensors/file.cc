#include "safetensors/file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/quote.h"
#include "files/digest.h"
#include "tensor/dequantize.h"
#include "tensor/dtype.h"

namespace tutti::safetensors {
namespace {

// Elements are converted through a buffer of at most this size: large enough to hide the call,
// small for L2.
constexpr size_t kChunkBytes = 1 << 18;

Status Unreadable(const TensorInfo& tensor) {
  return Refuse("st_shape", "tensor {} has type {}, which cannot be read as floats",
                Quote(tensor.name), Name(tensor.dtype));
}

// `bytes` is aligned for 8 bytes.
void ToFloats(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  const auto n = static_cast<int64_t>(out.size());
  if (dtype == DType::kF16) {
    tensor::DequantizeRow(tensor::DType::kF16, bytes.data(), out.data(), n);
  } else if (dtype == DType::kBF16) {
    tensor::DequantizeRow(tensor::DType::kBF16, bytes.data(), out.data(), n);
  } else {
    CHECK(dtype == DType::kF64) << Name(dtype);
    for (size_t i = 0; i < out.size(); ++i) {
      double wide = 0;
      std::memcpy(&wide, bytes.data() + i * sizeof(wide), sizeof(wide));
      out[i] = static_cast<float>(wide);
    }
  }
}

// Index of an element in C order, such as "[3, 17]".
std::string PlaceOf(int64_t element, const Shape& shape) {
  std::array<int64_t, kMaxRank> place = {};
  for (int i = shape.rank; i-- > 0;) {
    const auto at = static_cast<size_t>(i);
    place[at] = element % shape.extents[at];
    element /= shape.extents[at];
  }
  return fmt::format("[{}]", fmt::join(place.begin(), place.begin() + shape.rank, ", "));
}

}  // namespace

Result<std::shared_ptr<const File>> File::FromSource(std::shared_ptr<const files::Source> source,
                                                     size_t chunk) {
  std::shared_ptr<File> file(new File);
  ASSIGN_OR_RETURN(file->header_, Header::Parse(*source, chunk));
  file->source_ = std::move(source);
  return std::shared_ptr<const File>(std::move(file));
}

Status File::Read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const {
  return files::ReadTensor(*source_, tensor.name, tensor.file_offset, tensor.bytes, offset, out);
}

Status File::ReadFloats(const TensorInfo& tensor, int64_t first, std::span<float> out) const {
  const DTypeInfo& type = Info(tensor.dtype);
  if (!type.readable) return Unreadable(tensor);
  const uint64_t element_bytes = type.bits / 8;
  CHECK_GE(first, 0);
  const uint64_t from = static_cast<uint64_t>(first) * element_bytes;
  if (tensor.dtype == DType::kF32) return Read(tensor, from, std::as_writable_bytes(out));
  const size_t step = kChunkBytes / element_bytes;
  std::vector<std::byte> buffer(std::min(step, out.size()) * element_bytes);
  for (size_t done = 0; done < out.size(); done += step) {
    const std::span<float> part = out.subspan(done, std::min(step, out.size() - done));
    const std::span<std::byte> bytes(buffer.data(), part.size() * element_bytes);
    RETURN_IF_ERROR(Read(tensor, from + done * element_bytes, bytes));
    ToFloats(tensor.dtype, bytes, part);
  }
  return OkStatus();
}

Result<std::vector<float>> File::ReadFloats(const TensorInfo& tensor) const {
  if (!Info(tensor.dtype).readable) return Unreadable(tensor);  // before memory is taken for it
  std::vector<float> floats(static_cast<size_t>(tensor.shape.elements()));
  RETURN_IF_ERROR(ReadFloats(tensor, 0, floats));
  return floats;
}

Status File::CheckFinite(const TensorInfo& tensor) const {
  if (Info(tensor.dtype).integer) return OkStatus();
  if (!Info(tensor.dtype).readable) return Unreadable(tensor);
  const int64_t elements = tensor.shape.elements();
  constexpr int64_t kStep = kChunkBytes / sizeof(float);
  std::vector<float> values(static_cast<size_t>(std::min(elements, kStep)));
  for (int64_t first = 0; first < elements; first += kStep) {
    const std::span<float> part(values.data(),
                                static_cast<size_t>(std::min(kStep, elements - first)));
    RETURN_IF_ERROR(ReadFloats(tensor, first, part));
    RETURN_IF_ERROR(CheckFiniteFloats(tensor, first, part));
  }
  return OkStatus();
}

Result<std::string> File::HeaderDigest() const {
  return files::DigestFront(*source_, header_.data_offset());
}

Status CheckFiniteFloats(const TensorInfo& tensor, int64_t first, std::span<const float> values) {
  const int64_t found =
      tensor::FirstNonFinite(tensor::DType::kF32, values.data(), std::ssize(values));
  if (found < 0) return OkStatus();
  return Refuse("model_nonfinite", "tensor {} has a NaN or infinite value at {}",
                Quote(tensor.name), PlaceOf(first + found, tensor.shape));
}

std::shared_ptr<const files::Source> MemorySource(std::span<const std::byte> bytes) {
  return files::MemorySource(bytes, kTruncated);
}

}  // namespace tutti::safetensors
