#include "model/tensor_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/quote.h"

namespace tutti::model {
namespace {

class GgufStore final : public IndexedStore {
 public:
  explicit GgufStore(std::shared_ptr<const gguf::File> file) : file_(std::move(file)) {
    for (const gguf::TensorInfo& info : file_->tensors()) {
      Add({std::string(info.name), info.dtype(), info.shape, static_cast<size_t>(info.bytes), 0,
           ""});
    }
  }

  Status Read(const StoredTensor& tensor, uint64_t offset,
              std::span<std::byte> out) const override {
    return file_->Read(file_->tensors()[tensor.index], offset, out);
  }
  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
    return file_->ReadFloats(file_->tensors()[tensor.index]);
  }
  Status CheckUnchanged() const override { return file_->CheckUnchanged(); }
  std::string_view shape_code() const override { return "gguf_shape"; }

 private:
  const std::shared_ptr<const gguf::File> file_;
};

std::optional<tensor::DType> FloatType(safetensors::DType dtype) {
  switch (dtype) {
    case safetensors::DType::kF32:
      return tensor::DType::kF32;
    case safetensors::DType::kF16:
      return tensor::DType::kF16;
    case safetensors::DType::kBF16:
      return tensor::DType::kBF16;
    default:
      return std::nullopt;
  }
}

class SafetensorsStore final : public IndexedStore {
 public:
  explicit SafetensorsStore(std::shared_ptr<const safetensors::Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)) {
    std::map<const safetensors::File*, std::string_view> paths;
    if (checkpoint_->shards().size() > 1) {
      for (const safetensors::Checkpoint::Shard& shard : checkpoint_->shards())
        paths.emplace(shard.file.get(), shard.path);
    }
    for (const safetensors::Checkpoint::Tensor& found : checkpoint_->tensors()) {
      const safetensors::TensorInfo& info = *found.info;
      StoredTensor tensor{info.name, {}, {}, static_cast<size_t>(info.bytes), 0, ""};
      if (!paths.empty()) tensor.file = paths.at(found.file);
      const auto dtype = FloatType(info.dtype);
      const auto shape = info.shape.ContiguousFirst();
      tensor.stored_type = safetensors::Name(info.dtype);
      if (shape) tensor.shape = *shape;
      if (dtype && shape) {
        tensor.dtype = *dtype;
      } else {
        tensor.unreadable = fmt::format(
            "is {} {}; weights {}", safetensors::Name(info.dtype), info.shape.ToString(),
            dtype ? "have at most 4 dimensions" : "are F32, F16 or BF16");
      }
      Add(std::move(tensor));
    }
  }

  Status Read(const StoredTensor& tensor, uint64_t offset,
              std::span<std::byte> out) const override {
    const safetensors::Checkpoint::Tensor& found = checkpoint_->tensors()[tensor.index];
    Status status = found.file->Read(*found.info, offset, out);
    return status.ok() ? status : InFile(std::move(status), tensor);
  }
  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
    const safetensors::Checkpoint::Tensor& found = checkpoint_->tensors()[tensor.index];
    Result<std::vector<float>> floats = found.file->ReadFloats(*found.info);
    if (!floats.ok()) return InFile(std::move(floats).status(), tensor);
    return floats;
  }
  Status CheckUnchanged() const override { return checkpoint_->CheckUnchanged(); }
  std::string_view shape_code() const override { return "st_shape"; }

 private:
  // With several files, the error names the file at fault.
  Status InFile(Status status, const StoredTensor& tensor) const {
    const std::string& file = tensors()[tensor.index].file;
    return file.empty() ? std::move(status) : std::move(status).WithContext(file);
  }

  const std::shared_ptr<const safetensors::Checkpoint> checkpoint_;
};

// "12 tensors are REASON: "a", "b", "c", ..."; nothing without a name.
void Remark(std::vector<std::string> names, std::string_view reason,
            std::vector<std::string>& remarks) {
  if (names.empty()) return;
  constexpr size_t kShown = 3;
  std::sort(names.begin(), names.end());
  std::string list;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    list += (i == 0 ? "" : ", ") + Quote(names[i], 80);
  remarks.push_back(fmt::format("{} tensor{} {}: {}{}", names.size(),
                                names.size() == 1 ? " is" : "s are", reason, list,
                                names.size() > kShown ? ", ..." : ""));
}

}  // namespace

std::unique_ptr<TensorStore> MakeTensorStore(std::shared_ptr<const gguf::File> file) {
  return std::make_unique<GgufStore>(std::move(file));
}

std::unique_ptr<TensorStore> MakeTensorStore(const gguf::File& file) {
  return MakeTensorStore(std::shared_ptr<const gguf::File>(std::shared_ptr<void>(), &file));
}

std::unique_ptr<TensorStore> MakeTensorStore(
    std::shared_ptr<const safetensors::Checkpoint> checkpoint) {
  return std::make_unique<SafetensorsStore>(std::move(checkpoint));
}

Result<const StoredTensor*> Expect(const TensorStore& store, std::string_view name,
                                   const tensor::Shape& shape) {
  const StoredTensor* found = store.Find(name);
  if (found == nullptr) {
    return InvalidArgument("model_tensor_missing",
                           fmt::format("the file does not have the tensor {}", name));
  }
  if (!found->unreadable.empty()) {
    return InvalidArgument(store.shape_code(),
                           fmt::format("{} {}", found->Named(), found->unreadable));
  }
  if (found->shape == shape) return found;
  return InvalidArgument(store.shape_code(),
                         fmt::format("{} is {}, the hyper-parameters ask for {}", found->Named(),
                                     found->shape.ToString(), shape.ToString()));
}

Status CheckFinite(const StoredTensor& tensor, std::span<const float> values) {
  const auto finite = [](float value) { return std::isfinite(value); };
  if (std::all_of(values.begin(), values.end(), finite)) return OkStatus();
  return InvalidArgument("model_nonfinite",
                         fmt::format("{} holds a value that is not finite", tensor.Named()));
}

Result<std::vector<float>> ReadFinite(const TensorStore& store, const StoredTensor& tensor) {
  ASSIGN_OR_RETURN(std::vector<float> values, store.ReadFloats(tensor));
  RETURN_IF_ERROR(CheckFinite(tensor, values));
  return values;
}

void RemarkUnread(const gguf::Header& header, std::vector<std::string>& remarks) {
  const uint64_t bytes = header.unread_bytes();
  if (bytes == 0) return;
  remarks.push_back(fmt::format("{} byte{} behind the last tensor {} not read", bytes,
                                bytes == 1 ? "" : "s", bytes == 1 ? "is" : "are"));
}

void RemarkUnneeded(std::vector<std::string> names, std::vector<std::string>& remarks) {
  Remark(std::move(names), "not needed and not read", remarks);
}

void RemarkUnnamed(std::vector<std::string> names, std::vector<std::string>& remarks) {
  Remark(std::move(names), "not named by model.safetensors.index.json and not read", remarks);
}

}  // namespace tutti::model
