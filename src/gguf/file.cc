#include "gguf/file.h"

#include <algorithm>

#include "base/quote.h"
#include "files/digest.h"
#include "gguf/split.h"
#include "tensor/dequantize.h"

namespace tutti::gguf {
namespace {

// Tensors are streamed through a buffer of about this size: large enough to hide the call, small
// for L2.
constexpr int64_t kChunkBytes = 1 << 20;

// Calls fn(first_element, elements, blocks) for successive runs of whole blocks, which may begin
// and end inside rows (rows have no padding); stops at the first failure.
template <typename Fn>
Status ForEachChunk(const File& file, const TensorInfo& tensor, Fn fn) {
  const tensor::DTypeInfo& type = tensor::Info(tensor.dtype());
  const int64_t step = kChunkBytes / type.block_bytes * type.block_elements;
  const int64_t total = tensor.shape.elements();
  std::vector<std::byte> buffer(tensor::RowBytes(tensor.dtype(), std::min(step, total)));
  for (int64_t first = 0; first < total; first += step) {
    const int64_t elements = std::min(step, total - first);
    const std::span<std::byte> chunk(buffer.data(), tensor::RowBytes(tensor.dtype(), elements));
    RETURN_IF_ERROR(file.Read(tensor, tensor::RowBytes(tensor.dtype(), first), chunk));
    RETURN_IF_ERROR(fn(first, elements, chunk.data()));
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<const File>> File::Open(const std::string& path, const std::string& root) {
  ASSIGN_OR_RETURN(std::shared_ptr<const files::Source> source,
                   files::OpenSource(path, root, kTruncated));
  std::shared_ptr<File> file(new File);
  RETURN_IF_ERROR(Header::Parse(source, &file->header_));
  ASSIGN_OR_RETURN(const uint64_t parts, SplitCount(file->header_));
  if (parts > 1) {
    ASSIGN_OR_RETURN(source, OpenSplit(path, root, std::move(source), file->header_));
    return FromSource(std::move(source));
  }
  file->source_ = std::move(source);
  return std::shared_ptr<const File>(std::move(file));
}

Result<std::shared_ptr<const File>> File::FromSource(std::shared_ptr<const files::Source> source) {
  const uint64_t size = source->size();
  return FromFront(std::move(source), size);
}

Result<std::shared_ptr<const File>> File::FromFront(std::shared_ptr<const files::Source> front,
                                                    uint64_t file_bytes) {
  std::shared_ptr<File> file(new File);
  file->source_ = std::move(front);
  RETURN_IF_ERROR(Header::ParseFront(file->source_, file_bytes, &file->header_));
  ASSIGN_OR_RETURN(const uint64_t parts, SplitCount(file->header_));
  if (parts > 1) {
    return Refuse(
        "gguf_split",
        "this is one of {} parts of a split model, and the others cannot be found from here",
        parts);
  }
  return std::shared_ptr<const File>(std::move(file));
}

Result<std::string> File::HeaderDigest() const {
  // A file without tensors may end before the place where their data would begin.
  return files::DigestFront(*source_, std::min(header_.data_offset(), source_->size()));
}

Result<std::string> File::ContentDigest() const {
  return files::DigestFront(*source_, source_->size());
}

Status File::Read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const {
  return files::ReadTensor(*source_, tensor.name, tensor.file_offset, tensor.bytes, offset, out);
}

Result<std::vector<float>> File::ReadFloats(const TensorInfo& tensor) const {
  std::vector<float> floats(static_cast<size_t>(tensor.shape.elements()));
  RETURN_IF_ERROR(
      ForEachChunk(*this, tensor, [&](int64_t first, int64_t elements, const std::byte* blocks) {
        tensor::DequantizeRow(tensor.dtype(), blocks, floats.data() + first, elements);
        return OkStatus();
      }));
  return floats;
}

Status File::CheckFinite(const TensorInfo& tensor) const {
  return ForEachChunk(*this, tensor, [&](int64_t first, int64_t elements, const std::byte* blocks) {
    const int64_t found = tensor::FirstNonFinite(tensor.dtype(), blocks, elements);
    if (found < 0) return OkStatus();
    const int64_t columns = tensor.shape.columns();
    return Refuse("model_nonfinite", "tensor {} has a NaN or infinite {} at row {}, column {}",
                  Quote(tensor.name), tensor::IsQuantized(tensor.dtype()) ? "scale" : "value",
                  (first + found) / columns, (first + found) % columns);
  });
}

std::shared_ptr<const files::Source> MemorySource(std::span<const std::byte> bytes) {
  return files::MemorySource(bytes, kTruncated);
}

}  // namespace tutti::gguf
