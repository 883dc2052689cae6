#include <map>
#include <utility>

#include "model/tensor_store.h"

namespace tutti::model {
namespace {

class GgufStore final : public TensorStore {
 public:
  explicit GgufStore(std::shared_ptr<const gguf::File> file) : file_(std::move(file)) {
    for (const gguf::TensorInfo& info : file_->tensors()) {
      by_name_.emplace(info.name, tensors_.size());
      tensors_.push_back({std::string(info.name), info.dtype(), info.shape,
                          static_cast<size_t>(info.bytes), tensors_.size(), ""});
    }
  }

  std::span<const StoredTensor> tensors() const override { return tensors_; }
  const StoredTensor* Find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }
  Status Read(const StoredTensor& tensor, uint64_t offset,
              std::span<std::byte> out) const override {
    return file_->Read(Info(tensor), offset, out);
  }
  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
    return file_->ReadFloats(Info(tensor));
  }
  Status CheckUnchanged() const override { return file_->CheckUnchanged(); }
  std::string_view shape_code() const override { return "gguf_shape"; }

 private:
  const gguf::TensorInfo& Info(const StoredTensor& tensor) const {
    return file_->tensors()[tensor.index];
  }

  const std::shared_ptr<const gguf::File> file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string_view, size_t> by_name_;  // names of the file's header
};

}  // namespace

std::unique_ptr<TensorStore> MakeTensorStore(std::shared_ptr<const gguf::File> file) {
  return std::make_unique<GgufStore>(std::move(file));
}

std::unique_ptr<TensorStore> MakeTensorStore(const gguf::File& file) {
  return MakeTensorStore(std::shared_ptr<const gguf::File>(std::shared_ptr<void>(), &file));
}

}  // namespace tutti::model
