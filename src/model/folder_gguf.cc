#include "model/folder_gguf.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gguf/header_writer.h"
#include "model/config_parameters.h"
#include "model/folder_gguf_keys.h"
#include "model/folder_gguf_layout.h"
#include "model/vector_head.h"
#include "model/weights.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"

namespace tutti::model {
namespace {

std::vector<uint64_t> BytesOf(const std::vector<WholeTensor>& tensors) {
  std::vector<uint64_t> bytes;
  for (const WholeTensor& tensor : tensors) bytes.push_back(tensor.bytes);
  return bytes;
}

// The GGUF's bytes: its header from memory, its tensors from the folder.
class FolderSource final : public gguf::ComposedSource {
 public:
  FolderSource(std::shared_ptr<const TensorStore> store, std::vector<std::byte> header,
               std::vector<WholeTensor> tensors)
      : ComposedSource(std::move(header), BytesOf(tensors), gguf::kDefaultAlignment),
        store_(std::move(store)),
        tensors_(std::move(tensors)) {}

  Status CheckUnchanged() const override { return store_->CheckUnchanged(); }

 private:
  Status ReadTensor(size_t index, uint64_t offset, std::span<std::byte> out) const override {
    const WholeTensor& tensor = tensors_[index];
    if (tensor.pieces.empty()) {
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(tensor.values.data()) + offset,
                  out.size());
      return OkStatus();
    }
    if (tensor.floats) return ReadWidened(tensor, offset, out);
    if (!tensor.scales.empty()) return ReadScaled(tensor, offset, out);
    for (const FolderPiece& piece : tensor.pieces) {
      const uint64_t bytes = piece.bytes;
      if (offset < bytes) {
        const size_t here = static_cast<size_t>(std::min<uint64_t>(bytes - offset, out.size()));
        RETURN_IF_ERROR(ReadRows(piece, offset, out.first(here)));
        out = out.subspan(here);
        offset = 0;
      } else {
        offset -= bytes;
      }
      if (out.empty()) break;
    }
    return OkStatus();
  }

  Status ReadRows(const FolderPiece& piece, uint64_t offset, std::span<std::byte> out) const {
    if (piece.order.head == 0 && piece.order.known == 0)
      return store_->Read(*piece.tensor, offset, out);
    const size_t row_bytes = piece.tensor->bytes / static_cast<size_t>(piece.tensor->shape.rows());
    while (!out.empty()) {
      const int64_t row = static_cast<int64_t>(offset / row_bytes);
      const size_t in_row = static_cast<size_t>(offset % row_bytes);
      const size_t here = std::min(out.size(), row_bytes - in_row);
      if (piece.order.columns) {
        RETURN_IF_ERROR(ReadColumns(piece, row, in_row, out.first(here)));
      } else {
        const uint64_t from = static_cast<uint64_t>(piece.order.Source(row)) * row_bytes + in_row;
        RETURN_IF_ERROR(store_->Read(*piece.tensor, from, out.first(here)));
      }
      out = out.subspan(here);
      offset += here;
    }
    return OkStatus();
  }

  // Bytes of one row from `begin` on, head by head.
  Status ReadColumns(const FolderPiece& piece, int64_t row, size_t begin,
                     std::span<std::byte> out) const {
    const int64_t head = piece.order.head;
    const auto head_bytes = static_cast<size_t>(tensor::RowBytes(piece.tensor->dtype, head));
    const size_t row_bytes = piece.tensor->bytes / static_cast<size_t>(piece.tensor->shape.rows());
    while (!out.empty()) {
      const size_t in_head = begin % head_bytes;
      const size_t here = std::min(out.size(), head_bytes - in_head);
      const int64_t column = static_cast<int64_t>(begin / head_bytes) * head;
      const size_t from =
          static_cast<size_t>(piece.order.Source(column) / head) * head_bytes + in_head;
      RETURN_IF_ERROR(store_->Read(*piece.tensor, static_cast<uint64_t>(row) * row_bytes + from,
                                   out.first(here)));
      out = out.subspan(here);
      begin += here;
    }
    return OkStatus();
  }

  // Rows of F32, F16 or BF16, multiplied.
  Status ReadScaled(const WholeTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
    const FolderPiece& piece = tensor.pieces[0];
    const auto columns = static_cast<uint64_t>(piece.tensor->shape.columns());
    const uint64_t size = tensor::RowBytes(tensor.type, 1);
    const uint64_t first = offset / size;
    const uint64_t end = (offset + out.size() + size - 1) / size;
    std::vector<std::byte> read(static_cast<size_t>((end - first) * size));
    RETURN_IF_ERROR(ReadRows(piece, first * size, read));
    size_t part = 0;
    uint64_t part_end = static_cast<uint64_t>(tensor.scales[0].rows) * columns;
    for (uint64_t i = first; i < end; ++i) {
      while (i >= part_end) part_end += static_cast<uint64_t>(tensor.scales[++part].rows) * columns;
      Multiply(tensor.type, static_cast<float>(tensor.scales[part].factor),
               read.data() + (i - first) * size);
    }
    std::memcpy(out.data(), read.data() + (offset - first * size), out.size());
    return OkStatus();
  }

  static void Multiply(tensor::DType type, float factor, std::byte* value) {
    if (type == tensor::DType::kF32) {
      float number = 0;
      std::memcpy(&number, value, sizeof number);
      number *= factor;
      std::memcpy(value, &number, sizeof number);
      return;
    }
    uint16_t half = 0;
    std::memcpy(&half, value, sizeof half);
    half = type == tensor::DType::kF16
               ? tensor::FloatToHalf(tensor::HalfToFloat(half) * factor)
               : tensor::FloatToBFloat(tensor::BFloatToFloat(half) * factor);
    std::memcpy(value, &half, sizeof half);
  }

  // Small tensors whose values differ from the file's: converted as a whole at each read.
  Status ReadWidened(const WholeTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
    std::vector<float> ordered;
    for (const FolderPiece& piece : tensor.pieces) {
      ASSIGN_OR_RETURN(const std::vector<float> values, store_->ReadFloats(*piece.tensor));
      // Each value of a vector is a row.
      const bool vector = piece.tensor->shape.rows() == 1;
      const auto columns = vector ? size_t{1} : static_cast<size_t>(piece.tensor->shape.columns());
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t row = piece.order.Source(static_cast<int64_t>(i / columns));
        ordered.push_back(values[static_cast<size_t>(row) * columns + i % columns]);
      }
    }
    CHECK_EQ(ordered.size() * sizeof(float), tensor.bytes);
    std::memcpy(out.data(), reinterpret_cast<const std::byte*>(ordered.data()) + offset,
                out.size());
    return OkStatus();
  }

  const std::shared_ptr<const TensorStore> store_;
  const std::vector<WholeTensor> tensors_;
};

}  // namespace

Result<std::shared_ptr<const gguf::File>> FolderAsGguf(DecoderCheckpoint checkpoint,
                                                       std::string_view name) {
  if (checkpoint.encodes()) {
    RETURN_IF_ERROR(checkpoint.vectors.status());
    RETURN_IF_ERROR(
        CheckGgufVectors(*checkpoint.vectors, checkpoint.head, checkpoint.tokenizer.chat_template));
  }
  RETURN_IF_ERROR(Weights::Check(checkpoint));
  ASSIGN_OR_RETURN(const JsonFile json, JsonFile::Parse(checkpoint.config_json, "config.json"));
  const ConfigParameters keys(json);
  ASSIGN_OR_RETURN(std::vector<WholeTensor> tensors, LayOutTensors(checkpoint, keys));
  gguf::HeaderWriter header;
  header.String("general.architecture", checkpoint.config.architecture);
  header.String("general.type", "model");
  if (!name.empty()) header.String("general.name", name);
  PutSampling(checkpoint.generation, header);
  RETURN_IF_ERROR(PutArchitecture(checkpoint.config, keys, header));
  if (checkpoint.encodes())
    PutVectors(*checkpoint.vectors, checkpoint.head, checkpoint.config,
               checkpoint.tokenizer.chat_template, header);
  RETURN_IF_ERROR(PutTokenizer(checkpoint.tokenizer, header));
  for (const WholeTensor& tensor : tensors)
    header.Tensor(tensor.name, tensor.type, tensor.shape, tensor.bytes);
  return gguf::File::FromSource(std::make_shared<FolderSource>(
      checkpoint.tensors, header.Build(gguf::kDefaultAlignment), std::move(tensors)));
}

Result<std::shared_ptr<const gguf::File>> OpenFolderAsGguf(const std::string& path) {
  ASSIGN_OR_RETURN(DecoderCheckpoint checkpoint, DecoderCheckpoint::Open(path));
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  const std::string name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return FolderAsGguf(std::move(checkpoint), name);
}

}  // namespace tutti::model
