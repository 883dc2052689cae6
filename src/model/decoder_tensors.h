// DecoderTensors: presents a decoder's tensors under GGUF's names, one matrix each, independent of
// the names in the files and of matrices that they join.
//
// Immutable once Split; any thread. Names of transformers are translated; matrices that families
// join (queries, keys and values; gate and up; all experts) are split into views of rows. A tensor
// with an unknown name keeps that name, so that the loader refuses it by name.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/tensor_store.h"

namespace tutti::model {

class DecoderTensors final : public TensorStore {
 public:
  DecoderTensors(std::unique_ptr<TensorStore> files, const Family& family, Form form);

  // Leaves out what no answer depends on, with one remark: layers behind the last, heads for
  // training, parts for pictures, tables that are computed here. What is left and not known is
  // refused by the loader. Before Split.
  void DropUnneeded(const ModelConfig& config, std::vector<std::string>& remarks);

  // Leaves out tensors that are read elsewhere. Before Split.
  void Hide(std::span<const std::string> names);

  // Splits joined tensors by the model's shape. Called once, before the first read of a tensor.
  // Errors: the store's shape code.
  Status Split(const ModelConfig& config);

  std::span<const StoredTensor> tensors() const override { return tensors_; }
  const StoredTensor* Find(std::string_view name) const override;
  Status Read(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const override;
  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override;
  Status CheckUnchanged() const override { return files_->CheckUnchanged(); }
  std::string_view shape_code() const override { return files_->shape_code(); }

 private:
  struct Part {
    std::string name;
    int64_t rows;
  };
  struct Place {
    size_t tensor;    // of files_
    uint64_t offset;  // in bytes
    // Bytes from a row to the next and from an element to the next. 0: they lie together.
    uint64_t row_step = 0, element_step = 0;
    bool of_blocks = false;  // elements lie in rows of quantised blocks: they are read as F16
    bool part = false;       // of a tensor of the files
  };
  struct View {
    std::string name;
    tensor::Shape shape;
    Place place;  // of its first element; `tensor` is not set
  };
  void ShapeAsGguf(const ModelConfig& config);
  Status SplitGroups(const ModelConfig& config, const std::string& block);
  Status Replace(const std::string& name, const std::vector<Part>& parts);
  Status SplitLatent(const ModelConfig& config, const std::string& block);
  Status SplitJoinedExperts(const ModelConfig& config, const std::string& block);
  void NameAsOthers();
  Status SplitTransposedExperts(const ModelConfig& config, const std::string& block);
  Status ReplaceByViews(const std::string& name, const tensor::Shape& shape,
                        const std::vector<View>& views);
  Status ReadView(const StoredTensor& view, uint64_t offset, std::span<std::byte> out) const;
  Status ReadBlocksByColumns(const StoredTensor& view, uint64_t offset,
                             std::span<std::byte> out) const;
  void Index();
  bool IsNeeded(const StoredTensor& tensor, const ModelConfig& config) const;

  const std::unique_ptr<TensorStore> files_;
  const Family& family_;
  const Form form_;
  std::string prefix_ = "model.";  // of a folder: before the names of the text's tensors
  std::vector<StoredTensor> tensors_;
  std::vector<Place> places_;  // of tensors_
  std::map<std::string_view, size_t> by_name_;
};

// "model." for a folder whose tensors are called as most are; others have none, or those of a part:
// "language_model.model.", "model.language_model.".
std::string TextPrefix(const TensorStore& store);

// "blk.2.ffn_gate.5.weight" for "model.layers.2.mlp.experts.5.gate_proj.weight".
std::string GgufName(const Family& family, std::string_view name);

// Layer and the rest of "blk.N.REST"; `begin`: what stands before the number.
std::optional<std::pair<int, std::string_view>> InLayer(std::string_view name,
                                                        std::string_view begin = "blk.");

}  // namespace tutti::model
