#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "model/tensor_store.h"

namespace tutti::model {
namespace {

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

class SafetensorsStore final : public TensorStore {
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
      by_name_.emplace(info.name, tensors_.size());
      StoredTensor tensor{info.name, {}, {}, static_cast<size_t>(info.bytes), tensors_.size(), ""};
      if (!paths.empty()) tensor.file = paths.at(found.file);
      const auto dtype = FloatType(info.dtype);
      const auto shape = info.shape.ContiguousFirst();
      if (dtype && shape) {
        tensor.dtype = *dtype;
        tensor.shape = *shape;
      } else {
        tensor.unreadable = fmt::format(
            "is {} {}; weights {}", safetensors::Name(info.dtype), info.shape.ToString(),
            dtype ? "have at most 4 dimensions" : "are F32, F16 or BF16");
      }
      tensors_.push_back(std::move(tensor));
    }
  }

  std::span<const StoredTensor> tensors() const override { return tensors_; }
  const StoredTensor* Find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
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
    const std::string& file = tensors_[tensor.index].file;
    return file.empty() ? std::move(status) : std::move(status).WithContext(file);
  }

  const std::shared_ptr<const safetensors::Checkpoint> checkpoint_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string_view, size_t> by_name_;  // names of the files' headers
};

}  // namespace

std::unique_ptr<TensorStore> MakeTensorStore(
    std::shared_ptr<const safetensors::Checkpoint> checkpoint) {
  return std::make_unique<SafetensorsStore>(std::move(checkpoint));
}

}  // namespace tutti::model
