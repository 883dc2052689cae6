// FP8 (E4M3) weights, with a scale per matrix, per output or per block of a matrix.
//
// Shapes: weight F8_E4M3 [rows][columns]; scales one value, [rows][1], or [ceil(rows / block rows)]
// [ceil(columns / block columns)]. An element is scale * weight, also where the name of the scale
// is weight_scale_inv. Source: transformers, integrations/finegrained_fp8.py.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "base/quote.h"
#include "model/quantized/scheme.h"

namespace tutti::model::quantized {
namespace {

class Fp8Rows final : public Rows {
 public:
  Fp8Rows(const Matrix& matrix, std::vector<uint8_t> codes, std::vector<float> scales,
          int64_t block_rows, int64_t block_columns)
      : codes_(std::move(codes)),
        scales_(std::move(scales)),
        columns_(static_cast<size_t>(matrix.columns)),
        block_rows_(static_cast<size_t>(block_rows)),
        block_columns_(static_cast<size_t>(block_columns)) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = FloatOfE4M3(static_cast<uint8_t>(i));
  }

  void Read(int64_t number, Row* out) const override {
    const auto row = static_cast<size_t>(number);
    const size_t across = (columns_ + block_columns_ - 1) / block_columns_;
    out->floats.resize(columns_);
    for (size_t k = 0; k < columns_; ++k)
      out->floats[k] = values_[codes_[row * columns_ + k]] *
                       scales_[row / block_rows_ * across + k / block_columns_];
  }

 private:
  const std::vector<uint8_t> codes_;
  const std::vector<float> scales_;
  const size_t columns_, block_rows_, block_columns_;
  std::array<float, 256> values_{};
};

struct Fp8Matrix final : Matrix {
  Result<std::unique_ptr<Rows>> Load(const TensorStore& files) const override {
    ASSIGN_OR_RETURN(std::vector<uint8_t> read, ReadBytes(files, *codes));
    for (const uint8_t code : read) {
      if ((code & 127) != 127) continue;
      return InvalidArgument("model_nonfinite",
                             codes->Named() + " holds a value that is not finite");
    }
    ASSIGN_OR_RETURN(std::vector<float> factors, ReadFinite(files, *scales));
    return std::unique_ptr<Rows>(std::make_unique<Fp8Rows>(
        *this, std::move(read), std::move(factors), block_rows, block_columns));
  }
  const StoredTensor* codes = nullptr;
  const StoredTensor* scales = nullptr;
  int64_t block_rows = 1, block_columns = 1;
};

}  // namespace

Result<std::unique_ptr<Matrix>> MakeFp8(const TensorStore& files, const std::string& module,
                                        const std::string& scale, int64_t block_rows,
                                        int64_t block_columns, std::string what) {
  auto matrix = std::make_unique<Fp8Matrix>();
  matrix->module = module;
  matrix->floats = true;
  matrix->what = std::move(what);
  ASSIGN_OR_RETURN(matrix->codes, ExpectMatrix(files, module + ".weight", "F8_E4M3"));
  matrix->rows = matrix->codes->shape.rows();
  matrix->columns = matrix->codes->shape.columns();
  const StoredTensor* scales = files.Find(module + scale);
  if (scales == nullptr)
    return InvalidArgument("model_tensor_missing",
                           "the file does not have the tensor " + module + scale);
  if (scales->shape.elements() == 1) {
    block_rows = matrix->rows;
    block_columns = matrix->columns;
  } else if (block_rows == 0) {
    block_rows = 1;
    block_columns = matrix->columns;
  }
  const tensor::Shape shape =
      scales->shape.elements() == 1
          ? scales->shape
          : tensor::Shape{(matrix->columns + block_columns - 1) / block_columns,
                          (matrix->rows + block_rows - 1) / block_rows};
  ASSIGN_OR_RETURN(matrix->scales,
                   ExpectStored(files, module + scale, {"F32", "BF16", "F16"}, shape));
  matrix->block_rows = block_rows;
  matrix->block_columns = block_columns;
  RETURN_IF_ERROR(SetGroups(files, nullptr, -1, matrix.get()));
  return std::unique_ptr<Matrix>(std::move(matrix));
}

Result<Parsed> ParseFp8(const TensorStore& files, const JsonFile& config) {
  ASSIGN_OR_RETURN(const std::string format, config.StringOr("fmt", "e4m3"));
  if (format != "e4m3")
    return config.Refuse("fmt", "is {}, which is not supported (e4m3 is)", Quote(format));
  std::pair<int64_t, int64_t> block;
  if (config.Has("weight_block_size")) {
    ASSIGN_OR_RETURN(block, ReadBlockSize(config, "weight_block_size"));
  }
  Parsed parsed;
  for (const std::string scale : {".weight_scale_inv", ".weight_scale"}) {
    for (const std::string& module : ModulesWith(files, scale)) {
      ASSIGN_OR_RETURN(parsed.matrices.emplace_back(),
                       MakeFp8(files, module, scale, block.first, block.second, "FP8"));
    }
  }
  ASSIGN_OR_RETURN(const std::string activations, config.StringOr("activation_scheme", "dynamic"));
  if (activations == "static")
    parsed.remarks.push_back(
        "scales of activations are not used: activations are quantised as they come");
  return parsed;
}

}  // namespace tutti::model::quantized
