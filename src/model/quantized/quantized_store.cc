#include "model/quantized/quantized_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/mutex.h"
#include "base/quote.h"
#include "model/quantized/ignore_list.h"
#include "model/quantized/scheme.h"
#include "tensor/blocks.h"
#include "tensor/dequantize.h"
#include "tensor/quantize.h"

namespace tutti::model {
namespace {

using quantized::Matrix;
using quantized::Row;
using tensor::DType;

constexpr quantized::Scheme kSchemes[] = {
    {"compressed-tensors", "ignore", quantized::ParseCompressedTensors},
    {"gptq", "", quantized::ParseGptq},
    {"awq", "modules_to_not_convert", quantized::ParseAwq},
    {"bitnet", "modules_to_not_convert", quantized::ParseBitNet},
    {"fp8", "modules_to_not_convert", quantized::ParseFp8},
    {"mxfp4", "modules_to_not_convert", nullptr},
};

// Tensors of a quantised module that are read with its matrix, or that describe its inputs, which
// are quantised here as they come.
constexpr std::string_view kCompanions[] = {
    ".weight",           ".weight_packed",
    ".weight_scale",     ".weight_shape",
    ".weight_g_idx",     ".weight_zero_point",
    ".input_scale",      ".input_zero_point",
    ".weight_scale_inv", ".qweight",
    ".activation_scale", ".qzeros",
    ".scales",           ".g_idx",
};

// Every aligned block of 32 columns has one scale and one zero point.
bool HasUniformBlocks(const Matrix& matrix) {
  for (size_t k = 0; k < matrix.groups.size(); ++k)
    if (matrix.groups[k] != matrix.groups[k / tensor::kBlock * tensor::kBlock]) return false;
  return !matrix.floats;
}

DType TypeOf(const Matrix& matrix) {
  if (matrix.bits != 4 || !HasUniformBlocks(matrix)) return DType::kQ8_0;
  return matrix.symmetric ? DType::kQ4_0 : DType::kQ4_1;
}

// Whether nothing is lost. Scales in bfloat16 lose bits below 2^-17 alone.
bool IsExact(const Matrix& matrix) {
  const bool codes = matrix.symmetric || matrix.bits == 4;
  const bool scales = matrix.scale_type == "F16" || matrix.scale_type == "BF16";
  return HasUniformBlocks(matrix) && codes && scales && TypeOf(matrix) != DType::kQ4_1;
}

std::string LossOf(const Matrix& matrix) {
  if (!HasUniformBlocks(matrix)) return "quantised again, within 1/225 of the largest of each 32";
  const std::string codes = matrix.symmetric || matrix.bits == 4
                                ? "codes exact"
                                : "codes exact where they less the zero point fit 8 bits";
  std::string scales = "scales rounded to fp16";
  if (matrix.scale_type == "F16") scales = "scales exact";
  if (matrix.scale_type == "BF16") scales = "scales exact from 2^-17 up";
  const bool products = TypeOf(matrix) == DType::kQ4_1;
  return codes + ", " + scales + (products ? ", scale times zero point rounded to fp16" : "");
}

float Value(const Row& row, const Matrix& matrix, size_t k) {
  if (!row.floats.empty()) return row.floats[k];
  const auto group = static_cast<size_t>(matrix.groups[k]);
  return row.scales[group] * static_cast<float>(row.codes[k] - row.zeros[group]);
}

template <typename Block>
void StoreNibbles(const int* codes, Block* block) {
  for (size_t i = 0; i < 16; ++i)
    block->qs[i] = static_cast<uint8_t>(codes[i] | (codes[i + 16] << 4));
}

bool IsFinite(uint16_t half) { return (half & 0x7C00) != 0x7C00; }

// Encodes 32 columns from `k` on. False where a scale is beyond fp16.
bool EncodeBlock(const Row& row, const Matrix& matrix, DType type, bool uniform, size_t k,
                 std::byte* out) {
  const auto group = static_cast<size_t>(matrix.groups[k]);
  if (type != DType::kQ8_0) {
    int codes[tensor::kBlock];
    for (size_t i = 0; i < tensor::kBlock; ++i) codes[i] = row.codes[k + i];
    const float scale = row.scales[group];
    const uint16_t d = tensor::FloatToHalf(scale);
    if (type == DType::kQ4_0) {
      tensor::BlockQ4_0 block{d, {}};
      StoreNibbles(codes, &block);
      std::memcpy(out, &block, sizeof block);
      return IsFinite(d);
    }
    const uint16_t m = tensor::FloatToHalf(-scale * static_cast<float>(row.zeros[group]));
    tensor::BlockQ4_1 block{d, m, {}};
    StoreNibbles(codes, &block);
    std::memcpy(out, &block, sizeof block);
    return IsFinite(d) && IsFinite(m);
  }
  tensor::BlockQ8_0 block{};
  bool fits = uniform;
  for (size_t i = 0; fits && i < tensor::kBlock; ++i) {
    const int code = row.codes[k + i] - row.zeros[group];
    fits = code >= -128 && code <= 127;
    block.qs[i] = static_cast<int8_t>(code);
  }
  if (fits) {
    block.d = tensor::FloatToHalf(row.scales[group]);
  } else {
    float values[tensor::kBlock];
    for (size_t i = 0; i < tensor::kBlock; ++i) values[i] = Value(row, matrix, k + i);
    tensor::QuantizeRow(DType::kQ8_0, values, reinterpret_cast<std::byte*>(&block), tensor::kBlock);
  }
  std::memcpy(out, &block, sizeof block);
  return IsFinite(block.d);
}

class QuantizedStore final : public ViewStore {
 public:
  QuantizedStore(std::unique_ptr<TensorStore> files, std::vector<std::unique_ptr<Matrix>> matrices)
      : ViewStore(std::move(files)), matrices_(std::move(matrices)) {
    std::set<std::string> consumed;
    for (const auto& matrix : matrices_)
      for (const std::string_view end : kCompanions)
        consumed.insert(matrix->module + std::string(end));
    for (const StoredTensor& tensor : this->files().tensors()) {
      if (consumed.count(tensor.name) != 0) continue;
      Add(tensor);
      places_.push_back({tensor.index, nullptr});
    }
    for (const auto& matrix : matrices_) {
      StoredTensor tensor;
      tensor.name = matrix->module + ".weight";
      tensor.dtype = TypeOf(*matrix);
      tensor.shape = {matrix->columns, matrix->rows};
      tensor.bytes =
          tensor::RowBytes(tensor.dtype, matrix->columns) * static_cast<size_t>(matrix->rows);
      Add(std::move(tensor));
      places_.push_back({0, matrix.get()});
    }
  }

  Status Read(const StoredTensor& tensor, uint64_t offset,
              std::span<std::byte> out) const override {
    const Place& place = places_[tensor.index];
    if (place.matrix == nullptr) return files().Read(files().tensors()[place.tensor], offset, out);
    const StoredTensor& whole = tensors()[tensor.index];
    if (offset == 0 && out.size() == whole.bytes) return Encode(*place.matrix, whole, out);
    // Parts and pieces of a matrix are read one after the other: the last matrix is kept.
    const MutexLock lock(mutex_);
    if (kept_ != place.matrix) {
      kept_ = nullptr;
      bytes_.resize(whole.bytes);
      RETURN_IF_ERROR(Encode(*place.matrix, whole, bytes_));
      kept_ = place.matrix;
    }
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return OkStatus();
  }

  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
    const Place& place = places_[tensor.index];
    if (place.matrix == nullptr) return files().ReadFloats(files().tensors()[place.tensor]);
    const StoredTensor& whole = tensors()[tensor.index];
    std::vector<std::byte> bytes(whole.bytes);
    RETURN_IF_ERROR(Encode(*place.matrix, whole, bytes));
    std::vector<float> values(static_cast<size_t>(whole.shape.elements()));
    tensor::DequantizeRow(whole.dtype, bytes.data(), values.data(), whole.shape.elements());
    return values;
  }

 private:
  struct Place {
    size_t tensor;         // the index in files()
    const Matrix* matrix;  // instead of it, or null
  };

  Status Encode(const Matrix& matrix, const StoredTensor& tensor, std::span<std::byte> out) const {
    ASSIGN_OR_RETURN(const auto rows, matrix.Load(files()));
    const size_t block_bytes = tensor::RowBytes(tensor.dtype, tensor::kBlock);
    const bool uniform = HasUniformBlocks(matrix);
    std::byte* at = out.data();
    Row row;
    for (int64_t r = 0; r < matrix.rows; ++r) {
      rows->Read(r, &row);
      for (size_t k = 0; k < static_cast<size_t>(matrix.columns); k += tensor::kBlock) {
        if (!EncodeBlock(row, matrix, tensor.dtype, uniform, k, at)) {
          return InvalidArgument("model_nonfinite",
                                 fmt::format("module {}: a scale of row {} is too large for fp16",
                                             Quote(matrix.module), r));
        }
        at += block_bytes;
      }
    }
    return OkStatus();
  }

  const std::vector<std::unique_ptr<Matrix>> matrices_;
  std::vector<Place> places_;
  mutable Mutex mutex_;
  mutable const Matrix* kept_ GUARDED_BY(mutex_) = nullptr;
  mutable std::vector<std::byte> bytes_ GUARDED_BY(mutex_);  // of kept_
};

// "model.layers.#.mlp.up_proj": equal for the same module of every layer and expert.
std::string RoleOf(std::string_view module) {
  std::string role;
  for (size_t at = 0; at <= module.size();) {
    const size_t dot = std::min(module.find('.', at), module.size());
    const std::string_view part = module.substr(at, dot - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    role += (at == 0 ? "" : ".") + std::string(number ? "#" : part);
    at = dot + 1;
  }
  return role;
}

// Refuses a list of modules that contradicts which tensors are quantised.
Status CheckIgnored(const TensorStore& files, const quantized::Parsed& parsed,
                    const JsonFile& config, std::string_view key) {
  using quantized::IgnoreList;
  IgnoreList list;
  if (!key.empty()) {
    ASSIGN_OR_RETURN(list, IgnoreList::Read(config, key));
  }
  std::set<std::string> roles, modules;
  for (const auto& matrix : parsed.matrices) {
    if (list.Find(matrix->module) == IgnoreList::Match::kYes)
      return config.Refuse(key, "names module {}, which is quantised", Quote(matrix->module, 128));
    roles.insert(RoleOf(matrix->module));
    modules.insert(matrix->module);
  }
  for (const StoredTensor& tensor : files.tensors()) {
    if (!parsed.whole || !tensor.name.ends_with(".weight") || tensor.shape.dims != 2) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - 7);
    if (modules.contains(module) || !roles.contains(RoleOf(module)) ||
        list.Find(module) != IgnoreList::Match::kNo)
      continue;
    if (key.empty())
      return config.Refuse("quant_method", "is set, but module {} is not quantised",
                           Quote(module, 128));
    return config.Refuse(key, "does not name module {}, which is not quantised",
                         Quote(module, 128));
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<TensorStore>> MakeQuantizedStore(std::unique_ptr<TensorStore> files,
                                                        const JsonFile& config,
                                                        std::vector<std::string>& remarks,
                                                        std::vector<std::string>& notes) {
  ASSIGN_OR_RETURN(const std::string method, config.StringOr("quant_method", ""));
  std::string known;
  const quantized::Scheme* scheme = nullptr;
  for (const quantized::Scheme& each : kSchemes) {
    known += (known.empty() ? "" : ", ") + std::string(each.method);
    if (each.method == method) scheme = &each;
  }
  if (scheme == nullptr)
    return config.Refuse("quant_method", "is {}, which is not supported ({} are)", Quote(method),
                         known);
  // A cache whose keys and values have scales of the file is another arithmetic.
  if (config.Has("kv_cache_scheme"))
    return config.Refuse("kv_cache_scheme", "is not supported; remove it and set --kv-dtype");
  if (scheme->parse == nullptr) return quantized::MakeMxfp4Store(std::move(files), config, notes);
  ASSIGN_OR_RETURN(quantized::Parsed parsed, scheme->parse(*files, config));
  if (parsed.matrices.empty())
    return config.Refuse("quant_method", "is {}, but no tensor is quantised", Quote(method));
  RETURN_IF_ERROR(CheckIgnored(*files, parsed, config, scheme->ignore_key));
  struct Count {
    int matrices = 0;
    bool exact = true;
  };
  std::map<std::string, Count> counts;
  for (const auto& matrix : parsed.matrices) {
    if (matrix->columns % tensor::kBlock != 0) {
      return InvalidArgument(files->shape_code(),
                             fmt::format("module {} has {} columns, not a multiple of 32",
                                         Quote(matrix->module), matrix->columns));
    }
    Count& count = counts[fmt::format("of {}, read as {}: {}", matrix->what,
                                      tensor::Name(TypeOf(*matrix)), LossOf(*matrix))];
    ++count.matrices;
    count.exact = IsExact(*matrix);
  }
  for (const auto& [what, count] : counts) {
    (count.exact ? notes : remarks)
        .push_back(
            fmt::format("{} matri{} {}", count.matrices, count.matrices == 1 ? "x" : "ces", what));
  }
  for (std::string& remark : parsed.remarks) remarks.push_back(std::move(remark));
  return std::unique_ptr<TensorStore>(
      std::make_unique<QuantizedStore>(std::move(files), std::move(parsed.matrices)));
}

}  // namespace tutti::model
