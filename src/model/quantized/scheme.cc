#include "model/quantized/scheme.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace tutti::model::quantized {

std::vector<std::string> ModulesWith(const TensorStore& files, std::string_view suffix) {
  std::vector<std::string> modules;
  for (const StoredTensor& tensor : files.tensors())
    if (tensor.name.ends_with(suffix))
      modules.push_back(tensor.name.substr(0, tensor.name.size() - suffix.size()));
  return modules;
}

namespace {

Result<const StoredTensor*> Require(const TensorStore& files, const std::string& name,
                                    std::initializer_list<std::string_view> types) {
  const StoredTensor* tensor = files.Find(name);
  if (tensor == nullptr)
    return InvalidArgument("model_tensor_missing", "the file does not have the tensor " + name);
  if (std::find(types.begin(), types.end(), tensor->stored_type) != types.end()) return tensor;
  return InvalidArgument(files.shape_code(),
                         fmt::format("{} is {}; the quantization needs {}", tensor->Named(),
                                     tensor->stored_type, *types.begin()));
}

}  // namespace

Result<const StoredTensor*> ExpectStored(const TensorStore& files, const std::string& name,
                                         std::initializer_list<std::string_view> types,
                                         const tensor::Shape& shape) {
  ASSIGN_OR_RETURN(const StoredTensor* tensor, Require(files, name, types));
  if (tensor->shape == shape) return tensor;
  return InvalidArgument(files.shape_code(),
                         fmt::format("{} is {}, the quantization needs {}", tensor->Named(),
                                     tensor->shape.ToString(), shape.ToString()));
}

Result<const StoredTensor*> ExpectMatrix(const TensorStore& files, const std::string& name,
                                         std::string_view type) {
  ASSIGN_OR_RETURN(const StoredTensor* tensor, Require(files, name, {type}));
  if (tensor->shape.dims == 2 && tensor->shape.elements() > 0) return tensor;
  return InvalidArgument(files.shape_code(), fmt::format("{} is {}, not a matrix", tensor->Named(),
                                                         tensor->shape.ToString()));
}

Result<std::vector<int32_t>> ReadInts(const TensorStore& files, const StoredTensor& tensor) {
  std::vector<int32_t> values(tensor.bytes / sizeof(int32_t));
  RETURN_IF_ERROR(files.Read(tensor, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

Result<std::vector<uint8_t>> ReadBytes(const TensorStore& files, const StoredTensor& tensor) {
  std::vector<uint8_t> values(tensor.bytes);
  RETURN_IF_ERROR(files.Read(tensor, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

Status SetGroups(const TensorStore& files, const StoredTensor* g_idx, int64_t group,
                 Matrix* matrix) {
  if (group == -1) group = matrix->columns;
  if (group <= 0 || matrix->columns % group != 0) {
    return InvalidArgument("model_hparam",
                           fmt::format("group_size {} does not divide the {} columns of module {}",
                                       group, matrix->columns, matrix->module));
  }
  matrix->group = group;
  matrix->groups.resize(static_cast<size_t>(matrix->columns));
  for (int64_t k = 0; k < matrix->columns; ++k)
    matrix->groups[static_cast<size_t>(k)] = static_cast<int32_t>(k / group);
  if (g_idx == nullptr) return OkStatus();
  ASSIGN_OR_RETURN(std::vector<int32_t> stored, ReadInts(files, *g_idx));
  // compressed-tensors writes -1 where the order of the columns was not changed.
  if (std::all_of(stored.begin(), stored.end(), [](int32_t g) { return g == -1; }))
    return OkStatus();
  for (const int32_t g : stored) {
    if (g >= 0 && g < matrix->columns / group) continue;
    return InvalidArgument("model_hparam", fmt::format("{} has group {}, there are {}",
                                                       g_idx->Named(), g, matrix->columns / group));
  }
  matrix->groups = std::move(stored);
  return OkStatus();
}

Result<std::pair<int64_t, int64_t>> ReadBlockSize(const JsonFile& config, std::string_view key) {
  int64_t sizes[2] = {0, 0};
  const boost::json::value* value = config.Find(key);
  if (value != nullptr && value->is_array() && value->get_array().size() == 2) {
    for (size_t i = 0; i < 2; ++i)
      if (value->get_array()[i].is_int64()) sizes[i] = value->get_array()[i].get_int64();
  }
  if (sizes[0] < 1 || sizes[1] < 1 || sizes[0] > (1 << 20) || sizes[1] > (1 << 20))
    return config.Refuse(key, "must be two integers from 1 to 1048576");
  return std::pair(sizes[0], sizes[1]);
}

float FloatOfE4M3(uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if ((code & 127) == 127) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 128) != 0 ? -magnitude : magnitude;
}

}  // namespace tutti::model::quantized
