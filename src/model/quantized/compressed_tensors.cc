// compressed-tensors: int8 rows ("int-quantized"), codes of 4 or 8 bits packed in words
// ("pack-quantized"), and FP8 ("float-quantized").
//
// Source: the Python package compressed-tensors, compressors/quantized_compressors. An element is
// scale * (code - zero); packed codes and zero points have half of their range added.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/quote.h"
#include "model/quantized/scheme.h"

namespace tutti::model::quantized {
namespace {

// Rows of integers: one byte each, or packed from the lowest bits of a word up.
class IntegerRows final : public Rows {
 public:
  IntegerRows(std::vector<uint8_t> codes, std::vector<uint8_t> zeros, std::vector<float> scales,
              const Matrix& matrix, bool packed)
      : codes_(std::move(codes)),
        zeros_(std::move(zeros)),
        scales_(std::move(scales)),
        columns_(static_cast<size_t>(matrix.columns)),
        groups_(static_cast<size_t>(matrix.columns / matrix.group)),
        bits_(packed ? matrix.bits : 0) {}

  void Read(int64_t number, Row* out) const override {
    const auto row = static_cast<size_t>(number);
    out->codes.resize(columns_);
    if (bits_ == 0) {
      for (size_t k = 0; k < columns_; ++k)
        out->codes[k] = static_cast<int8_t>(codes_[row * columns_ + k]);
    } else {
      const size_t per_word = static_cast<size_t>(32 / bits_);
      const size_t bytes = (columns_ + per_word - 1) / per_word * 4;
      for (size_t k = 0; k < columns_; ++k) out->codes[k] = Packed(&codes_[row * bytes], k);
    }
    out->scales.resize(groups_);
    out->zeros.assign(groups_, 0);
    for (size_t g = 0; g < groups_; ++g) {
      out->scales[g] = scales_[scales_.size() == 1 ? 0 : row * groups_ + g];
      if (zeros_.empty()) continue;
      if (bits_ == 0) {
        out->zeros[g] = static_cast<int8_t>(zeros_[zeros_.size() == 1 ? 0 : row * groups_ + g]);
      } else {
        // Packed along the rows: [rows / per word][groups] words.
        const size_t per_word = static_cast<size_t>(32 / bits_);
        out->zeros[g] = Packed(&zeros_[(row / per_word * groups_ + g) * 4], row % per_word);
      }
    }
    // Codes of 4 bits are presented from 0 up.
    if (bits_ != 4) return;
    for (int16_t& code : out->codes) code = static_cast<int16_t>(code + 8);
    for (int16_t& zero : out->zeros) zero = static_cast<int16_t>(zero + 8);
  }

 private:
  int16_t Packed(const uint8_t* words, size_t k) const {
    if (bits_ == 8) return static_cast<int16_t>(words[k] - 128);
    return static_cast<int16_t>(((words[k / 2] >> (k % 2 * 4)) & 15) - 8);
  }

  const std::vector<uint8_t> codes_, zeros_;
  const std::vector<float> scales_;
  const size_t columns_, groups_;
  const int bits_;  // 0: one byte each, not offset
};

struct IntegerMatrix final : Matrix {
  Result<std::unique_ptr<Rows>> Load(const TensorStore& files) const override {
    ASSIGN_OR_RETURN(std::vector<uint8_t> read, ReadBytes(files, *codes));
    ASSIGN_OR_RETURN(std::vector<float> factors, ReadFinite(files, *scales));
    std::vector<uint8_t> points;
    if (zeros != nullptr) {
      ASSIGN_OR_RETURN(points, ReadBytes(files, *zeros));
    }
    return std::unique_ptr<Rows>(std::make_unique<IntegerRows>(std::move(read), std::move(points),
                                                               std::move(factors), *this, packed));
  }
  const StoredTensor* codes = nullptr;
  const StoredTensor* scales = nullptr;
  const StoredTensor* zeros = nullptr;
  bool packed = false;
};

// What the config_groups allow, of all groups together: which group a module belongs to follows
// from its tensors.
struct Groups {
  std::set<int64_t> sizes;  // columns of a group; 0: a row, -1: the matrix
  std::set<int> bits;       // -8: floats of 8 bits
  std::set<bool> symmetric;
  int64_t block_rows = 0, block_columns = 0;
  bool ordered = false;        // columns are in groups by weight_g_idx
  bool static_inputs = false;  // activations have scales in the file
  bool every_linear = false;   // a group has all linear modules for its targets
};

Status ReadWeights(const JsonFile& weights, Groups* groups) {
  ASSIGN_OR_RETURN(const int bits, weights.Int("num_bits", 1, 32));
  ASSIGN_OR_RETURN(const std::string type, weights.StringOr("type", "int"));
  if (!(type == "int" && (bits == 4 || bits == 8)) && !(type == "float" && bits == 8))
    return weights.Refuse("num_bits", "of {} for {} is not supported (int 4, int 8, float 8 are)",
                          bits, Quote(type));
  groups->bits.insert(type == "float" ? -bits : bits);
  ASSIGN_OR_RETURN(const bool symmetric, weights.BoolOr("symmetric", true));
  groups->symmetric.insert(symmetric);
  ASSIGN_OR_RETURN(const bool dynamic, weights.BoolOr("dynamic", false));
  if (dynamic) return weights.Refuse("dynamic", "of true is not supported");
  if (const boost::json::value* order = weights.Find("actorder")) {
    const std::string_view name =
        order->is_string() ? std::string_view(order->get_string()) : std::string_view();
    const bool group = name == "group" || (order->is_bool() && order->get_bool());
    if (!group && name != "weight" && name != "static" && !order->is_bool())
      return weights.Refuse("actorder", "is {}, which is not supported", Excerpt(*order));
    groups->ordered |= group;
  }
  ASSIGN_OR_RETURN(const int size, weights.IntOr("group_size", 0, -1, 1 << 20));
  ASSIGN_OR_RETURN(const std::string strategy,
                   weights.StringOr("strategy", size > 0 ? "group" : "channel"));
  if (strategy == "channel") {
    groups->sizes.insert(0);
  } else if (strategy == "tensor") {
    groups->sizes.insert(-1);
  } else if (strategy == "group" && size > 0) {
    groups->sizes.insert(size);
  } else if (strategy == "block" && type == "float") {
    ASSIGN_OR_RETURN(std::tie(groups->block_rows, groups->block_columns),
                     ReadBlockSize(weights, "block_structure"));
  } else {
    return weights.Refuse("strategy", "{} with group_size {} is not supported", Quote(strategy),
                          size);
  }
  return OkStatus();
}

Status ReadInputs(const JsonFile& inputs, Groups* groups) {
  ASSIGN_OR_RETURN(const int bits, inputs.IntOr("num_bits", 8, 1, 32));
  if (bits != 8) return inputs.Refuse("num_bits", "of {} is not supported (8 is)", bits);
  const boost::json::value* dynamic = inputs.Find("dynamic");
  groups->static_inputs |= dynamic == nullptr || !dynamic->is_bool() || !dynamic->get_bool();
  return OkStatus();
}

Result<Groups> ReadGroups(const JsonFile& config) {
  const boost::json::value* all = config.Find("config_groups");
  if (all == nullptr || !all->is_object() || all->get_object().empty())
    return config.Refuse("config_groups", "must be an object with a group");
  Groups out;
  for (const auto& [name, value] : all->get_object()) {
    const std::string where = config.name() + ": config_groups." + std::string(name);
    if (!value.is_object()) return InvalidArgument("model_hparam", where + " must be an object");
    const JsonFile group = JsonFile::Of(value.get_object(), where);
    const boost::json::value* weights = group.Find("weights");
    if (weights == nullptr || !weights->is_object())
      return group.Refuse("weights", "must be an object");
    RETURN_IF_ERROR(ReadWeights(JsonFile::Of(weights->get_object(), where + ".weights"), &out));
    if (group.Has("output_activations"))
      return group.Refuse("output_activations", "is not supported");
    const boost::json::value* inputs = group.Find("input_activations");
    if (inputs != nullptr && !inputs->is_object())
      return group.Refuse("input_activations", "must be an object");
    if (inputs != nullptr)
      RETURN_IF_ERROR(
          ReadInputs(JsonFile::Of(inputs->get_object(), where + ".input_activations"), &out));
    if (const boost::json::value* targets = group.Find("targets"); targets && targets->is_array()) {
      for (const boost::json::value& target : targets->get_array())
        out.every_linear |= target.is_string() && target.get_string() == "Linear";
    }
  }
  return out;
}

// Finds the zero points. Those of a symmetric quantization are all zero, if the file has them.
Status FindZeros(const TensorStore& files, const Groups& groups, int64_t count,
                 IntegerMatrix* matrix) {
  const std::string name = matrix->module + ".weight_zero_point";
  if (files.Find(name) == nullptr) {
    if (groups.symmetric.contains(true)) return OkStatus();
    return InvalidArgument("model_tensor_missing", "the file does not have the tensor " + name);
  }
  const int64_t per_word = 32 / matrix->bits;
  const tensor::Shape shape = matrix->packed
                                  ? tensor::Shape{count, (matrix->rows + per_word - 1) / per_word}
                                  : matrix->scales->shape;
  ASSIGN_OR_RETURN(
      const StoredTensor* zeros,
      ExpectStored(files, name, {matrix->packed ? std::string_view("I32") : "I8"}, shape));
  if (!groups.symmetric.contains(false)) {
    ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadBytes(files, *zeros));
    const uint8_t middle = !matrix->packed ? 0 : matrix->bits == 4 ? 0x88 : 0x80;
    // Words of the last rows may have places that no row uses.
    const bool plain = std::all_of(bytes.begin(), bytes.end(),
                                   [&](uint8_t byte) { return byte == middle || byte == 0; });
    if (plain) return OkStatus();
    return InvalidArgument("model_hparam",
                           zeros->Named() + " has zero points, but no group is asymmetric");
  }
  matrix->zeros = zeros;
  matrix->symmetric = false;
  return OkStatus();
}

Result<std::unique_ptr<Matrix>> MakeInteger(const TensorStore& files, const std::string& module,
                                            const Groups& groups, bool packed) {
  auto matrix = std::make_unique<IntegerMatrix>();
  matrix->module = module;
  matrix->packed = packed;
  const std::string begin = module + ".";
  if (packed) {
    ASSIGN_OR_RETURN(matrix->codes, ExpectMatrix(files, begin + "weight_packed", "I32"));
    ASSIGN_OR_RETURN(const StoredTensor* shape,
                     ExpectStored(files, begin + "weight_shape", {"I64", "I32"}, {2}));
    ASSIGN_OR_RETURN(const std::vector<int32_t> words, ReadInts(files, *shape));
    const bool wide = shape->stored_type == "I64";
    matrix->rows = words[0];
    matrix->columns = words[wide ? 2 : 1];
    const int64_t stored = matrix->codes->shape.columns();
    const bool fits = matrix->rows == matrix->codes->shape.rows() && matrix->columns > 0 &&
                      (!wide || (words[1] == 0 && words[3] == 0));
    const auto has = [&](int bits) {
      return groups.bits.count(bits) != 0 && stored == (int64_t{matrix->columns} * bits + 31) / 32;
    };
    matrix->bits = has(4) ? 4 : 8;
    if (!fits || !has(matrix->bits)) {
      return InvalidArgument(
          files.shape_code(),
          fmt::format("{} is {}, which is not {} rows of {} packed codes", matrix->codes->Named(),
                      matrix->codes->shape.ToString(), matrix->rows, matrix->columns));
    }
  } else {
    ASSIGN_OR_RETURN(matrix->codes, ExpectMatrix(files, begin + "weight", "I8"));
    matrix->rows = matrix->codes->shape.rows();
    matrix->columns = matrix->codes->shape.columns();
    if (groups.bits.count(8) == 0)
      return InvalidArgument("model_hparam",
                             matrix->codes->Named() + " is I8, but no group has num_bits of 8");
  }
  // The scale's shape gives the group; the configuration must have it.
  const std::string scale_name = begin + "weight_scale";
  matrix->scales = files.Find(scale_name);
  if (matrix->scales == nullptr)
    return InvalidArgument("model_tensor_missing",
                           "the file does not have the tensor " + scale_name);
  const tensor::Shape& shape = matrix->scales->shape;
  const bool whole = shape.elements() == 1 && groups.sizes.count(-1) != 0;
  const int64_t count = whole ? 1 : shape.dims == 2 ? shape.columns() : 0;
  const int64_t group = count > 0 && matrix->columns % count == 0 ? matrix->columns / count : 0;
  const bool allowed = whole || (group != 0 && groups.sizes.count(group) != 0) ||
                       (count == 1 && groups.sizes.count(0) != 0);
  if (!allowed || (!whole && shape.rows() != matrix->rows)) {
    return InvalidArgument(
        files.shape_code(),
        fmt::format("{} is {}, which fits no group of the config and {} rows of {} columns",
                    matrix->scales->Named(), shape.ToString(), matrix->rows, matrix->columns));
  }
  RETURN_IF_ERROR(ExpectStored(files, scale_name, {"F32", "F16", "BF16"}, shape).status());
  matrix->scale_type = matrix->scales->stored_type;
  const StoredTensor* g_idx = nullptr;
  const std::string order_name = begin + "weight_g_idx";
  if (files.Find(order_name) != nullptr) {
    ASSIGN_OR_RETURN(g_idx, ExpectStored(files, order_name, {"I32"}, {matrix->columns}));
  } else if (groups.ordered && count > 1) {
    return InvalidArgument("model_tensor_missing",
                           "actorder is group, but the file does not have " + order_name);
  }
  RETURN_IF_ERROR(SetGroups(files, g_idx, group, matrix.get()));
  RETURN_IF_ERROR(FindZeros(files, groups, count, matrix.get()));
  matrix->what = fmt::format("compressed-tensors int{}", matrix->bits);
  return std::unique_ptr<Matrix>(std::move(matrix));
}

// A setting that changes the arithmetic and is not supported, unless it is empty.
Status RefuseUnlessEmpty(const JsonFile& config, std::string_view key) {
  const boost::json::value* value = config.Find(key);
  if (value == nullptr || (value->is_object() && value->get_object().empty())) return OkStatus();
  if (key == "sparsity_config" && value->is_object()) {
    const boost::json::value* format = value->get_object().if_contains("format");
    if (format != nullptr && format->is_string() && format->get_string() == "dense")
      return OkStatus();
  }
  return config.Refuse(key, "is not supported");
}

}  // namespace

Result<Parsed> ParseCompressedTensors(const TensorStore& files, const JsonFile& config) {
  ASSIGN_OR_RETURN(const std::string format, config.StringOr("format", ""));
  constexpr std::string_view kFormats[] = {"int-quantized", "pack-quantized", "float-quantized",
                                           "naive-quantized", "mixed-precision"};
  if (std::find(std::begin(kFormats), std::end(kFormats), format) == std::end(kFormats))
    return config.Refuse(
        "format",
        "is {}, which is not supported (int-quantized, pack-quantized, float-quantized are)",
        Quote(format));
  for (const char* key : {"sparsity_config", "transform_config"})
    RETURN_IF_ERROR(RefuseUnlessEmpty(config, key));
  ASSIGN_OR_RETURN(const Groups groups, ReadGroups(config));
  Parsed parsed;
  for (const std::string& module : ModulesWith(files, ".weight_packed")) {
    ASSIGN_OR_RETURN(parsed.matrices.emplace_back(), MakeInteger(files, module, groups, true));
  }
  for (const std::string& module : ModulesWith(files, ".weight_scale")) {
    const StoredTensor* weight = files.Find(module + ".weight");
    if (weight == nullptr) continue;
    if (weight->stored_type == "F8_E4M3") {
      if (groups.bits.count(-8) == 0)
        return InvalidArgument("model_hparam",
                               weight->Named() + " is F8_E4M3, but no group has floats of 8 bits");
      ASSIGN_OR_RETURN(parsed.matrices.emplace_back(),
                       MakeFp8(files, module, ".weight_scale", groups.block_rows,
                               groups.block_columns, "compressed-tensors FP8"));
    } else {
      ASSIGN_OR_RETURN(parsed.matrices.emplace_back(), MakeInteger(files, module, groups, false));
    }
  }
  if (groups.static_inputs)
    parsed.remarks.push_back(
        "scales of activations are not used: activations are quantised as they come");
  parsed.whole = groups.every_linear;
  return parsed;
}

}  // namespace tutti::model::quantized
