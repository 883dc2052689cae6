// TensorStore: interface to the named tensors of a checkpoint of any format, from which weights are
// loaded.
//
// Immutable; any thread. Implemented by adapters over the readers of the formats; the names are the
// format's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "gguf/header.h"
#include "safetensors/checkpoint.h"
#include "tensor/dtype.h"

namespace tutti::model {

struct StoredTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  size_t bytes = 0;
  size_t index = 0;        // in TensorStore::tensors()
  std::string unreadable;  // why its values are nothing a model multiplies with; empty if they are
  std::string file = "";   // of several: the one it lies in, relative to the folder

  std::string in_file = "";  // its name there, where that is another
  // Of safetensors: the type as the format names it ("I32"); also where `unreadable` is set.
  std::string_view stored_type = "";

  // "tensor blk.0.ffn_up.weight (model.layers.0.mlp.up_proj.weight)", and of several files which:
  // for messages.
  std::string Named() const {
    return "tensor " + name + (in_file.empty() ? std::string() : " (" + in_file + ")") +
           (file.empty() ? std::string() : " of " + file);
  }
};

class TensorStore {
 public:
  virtual ~TensorStore() = default;
  virtual std::span<const StoredTensor> tensors() const = 0;
  virtual const StoredTensor* Find(std::string_view name) const = 0;  // nullptr when absent
  // Fills `out` with bytes of the tensor from `offset`; the range must lie in the tensor. Errors of
  // these three: of a file that was cut or changed (gguf_truncated, st_offsets), of one that a
  // device does not give (model_path); packed_header of the table of a packed file, whose tensors
  // have no bytes.
  virtual Status Read(const StoredTensor& tensor, uint64_t offset,
                      std::span<std::byte> out) const = 0;
  // All its values, row after row.
  virtual Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const = 0;
  // An error when the files were written since they were opened.
  virtual Status CheckUnchanged() const = 0;
  // The code of a tensor that has another shape than the hyper-parameters say.
  virtual std::string_view shape_code() const = 0;
};

// A store whose tensors are listed once: base class of the stores over files and of views over
// another store, which rename, join or convert its tensors.
class IndexedStore : public TensorStore {
 public:
  std::span<const StoredTensor> tensors() const final { return tensors_; }
  const StoredTensor* Find(std::string_view name) const final {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }

 protected:
  // Appends a tensor; of equal names the first is found. Its index is its place.
  void Add(StoredTensor tensor) {
    tensor.index = tensors_.size();
    by_name_.emplace(tensor.name, tensors_.size());
    tensors_.push_back(std::move(tensor));
  }

 private:
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

// A view over one other store, which it owns.
class ViewStore : public IndexedStore {
 public:
  Status CheckUnchanged() const override { return files_->CheckUnchanged(); }
  std::string_view shape_code() const override { return files_->shape_code(); }

 protected:
  explicit ViewStore(std::unique_ptr<TensorStore> files) : files_(std::move(files)) {}
  const TensorStore& files() const { return *files_; }

 private:
  const std::unique_ptr<TensorStore> files_;
};

std::unique_ptr<TensorStore> MakeTensorStore(std::shared_ptr<const gguf::File> file);
// `file` outlives the store.
std::unique_ptr<TensorStore> MakeTensorStore(const gguf::File& file);
std::unique_ptr<TensorStore> MakeTensorStore(
    std::shared_ptr<const safetensors::Checkpoint> checkpoint);

// The tensor of this name and shape (columns first). Errors: model_tensor_missing; shape_code() of
// another shape or a type that nothing multiplies with.
Result<const StoredTensor*> Expect(const TensorStore& store, std::string_view name,
                                   const tensor::Shape& shape);

// Error model_nonfinite if one of the tensor's `values` is an infinity or no number.
Status CheckFinite(const StoredTensor& tensor, std::span<const float> values);

// ReadFloats() and CheckFinite().
Result<std::vector<float>> ReadFinite(const TensorStore& store, const StoredTensor& tensor);

// --- remarks ---
//
// Oddities of a model's files that change no answer. A server's start, `run` and `inspect` print
// them. Each function appends one sentence without a full stop to `remarks`, or nothing where there
// is nothing odd. Pure; any thread.

// Bytes behind the last tensor.
void RemarkUnread(const gguf::Header& header, std::vector<std::string>& remarks);

// Tensors that no answer depends on. `names`: as in the file.
void RemarkUnneeded(std::vector<std::string> names, std::vector<std::string>& remarks);

// Tensors of a folder that model.safetensors.index.json does not name.
void RemarkUnnamed(std::vector<std::string> names, std::vector<std::string>& remarks);

}  // namespace tutti::model
