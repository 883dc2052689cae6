#include "model/pack_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "gguf/header_writer.h"
#include "packed/file.h"

namespace tutti::model {
namespace {

// The tensors whose data is read when a model is opened, not with the weights.
constexpr std::string_view kReadAtOpening[] = {
    "rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight", "dense_2.weight",
    "dense_3.weight",    "cls.output.weight"};

bool IsReadAtOpening(std::string_view name) {
  return std::find(std::begin(kReadAtOpening), std::end(kReadAtOpening), name) !=
         std::end(kReadAtOpening);
}

// The front of a GGUF of the file's pairs and tensors, and its size if it were whole.
struct Description {
  std::vector<std::byte> bytes;
  uint64_t whole_bytes = 0;
};

Result<Description> Describe(const gguf::File& file) {
  const gguf::Header& header = file.header();
  gguf::HeaderWriter writer;
  for (size_t i = 0; i < header.entry_count(); ++i) writer.Copy(header.entry(i));
  const auto put = [&](const gguf::TensorInfo& tensor) {
    writer.Tensor(tensor.name, tensor.dtype(), tensor.shape, tensor.bytes);
  };
  std::vector<const gguf::TensorInfo*> read_at_opening;  // their data follows the header
  for (const std::string_view name : kReadAtOpening) {
    const gguf::TensorInfo* tensor = file.FindTensor(name);
    if (tensor == nullptr) continue;
    put(*tensor);
    read_at_opening.push_back(tensor);
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (!IsReadAtOpening(tensor.name)) put(tensor);
  }
  const uint64_t alignment = header.alignment();
  Description description;
  description.bytes = writer.Build(alignment);
  description.whole_bytes = description.bytes.size() + writer.DataBytes(alignment);
  for (const gguf::TensorInfo* tensor : read_at_opening) {
    const size_t at = (description.bytes.size() + alignment - 1) / alignment * alignment;
    description.bytes.resize(at + static_cast<size_t>(tensor->bytes));
    RETURN_IF_ERROR(file.Read(*tensor, 0, std::span(description.bytes).subspan(at)));
  }
  return description;
}

}  // namespace

Result<PackedModel> PackModel(const gguf::File& file, const LoadOptions& options) {
  CHECK(options.fuse);
  PackedModel made;
  LoadOptions load = options;
  load.keep_outliers = false;  // looked for at each start: they are no part of the file
  ASSIGN_OR_RETURN(made.weights, Weights::Load(file, load));
  ASSIGN_OR_RETURN(const Description description, Describe(file));
  packed::Preamble preamble;
  preamble.layout = kWeightsLayout;
  preamble.arithmetic = ArithmeticOf(options.mode);
  preamble.description_bytes = description.bytes.size();
  preamble.whole_bytes = description.whole_bytes;
  preamble.weight_bytes = made.weights->bytes();
  if (preamble.description_bytes > packed::kMaxDescriptionBytes ||
      preamble.weight_bytes > packed::kMaxWeightBytes) {
    return InvalidArgument("packed_header",
                           fmt::format("metadata of {} bytes or weights of {} are more than a "
                                       "packed file holds",
                                       preamble.description_bytes, preamble.weight_bytes));
  }
  made.front =
      packed::MakeFront(preamble, description.bytes, {made.weights->data(), made.weights->bytes()});
  return made;
}

}  // namespace tutti::model
