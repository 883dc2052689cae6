// AWQ of 4 bits, version GEMM: words of codes along the outputs, in an order of their own.
//
// Shapes: qweight I32 [columns][rows / 8], qzeros I32 [groups][rows / 8], scales [groups][rows].
// A word's nibble kNibbleOf[i], counted from the lowest, is that of output i of its eight. An
// element is scale * (code - zero). Source: AutoAWQ, utils/packing_utils.py.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/quote.h"
#include "model/quantized/scheme.h"

namespace tutti::model::quantized {
namespace {

// The nibble that holds output i of eight: the inverse of (0, 2, 4, 6, 1, 3, 5, 7).
constexpr std::array<int, 8> kNibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};

class AwqRows final : public Rows {
 public:
  AwqRows(const Matrix& matrix, std::vector<int32_t> codes, std::vector<int32_t> zeros,
          std::vector<float> scales)
      : codes_(std::move(codes)),
        zeros_(std::move(zeros)),
        scales_(std::move(scales)),
        rows_(static_cast<size_t>(matrix.rows)),
        columns_(static_cast<size_t>(matrix.columns)),
        groups_(static_cast<size_t>(matrix.columns / matrix.group)) {}

  void Read(int64_t number, Row* out) const override {
    const auto row = static_cast<size_t>(number);
    out->codes.resize(columns_);
    for (size_t k = 0; k < columns_; ++k) out->codes[k] = Code(codes_, k, row);
    out->scales.resize(groups_);
    out->zeros.resize(groups_);
    for (size_t g = 0; g < groups_; ++g) {
      out->scales[g] = scales_[g * rows_ + row];
      out->zeros[g] = Code(zeros_, g, row);
    }
  }

 private:
  int16_t Code(const std::vector<int32_t>& words, size_t line, size_t row) const {
    const auto word = static_cast<uint32_t>(words[line * (rows_ / 8) + row / 8]);
    return static_cast<int16_t>((word >> (4 * kNibbleOf[row % 8])) & 15);
  }

  const std::vector<int32_t> codes_, zeros_;
  const std::vector<float> scales_;
  const size_t rows_, columns_, groups_;
};

struct AwqMatrix final : Matrix {
  Result<std::unique_ptr<Rows>> Load(const TensorStore& files) const override {
    ASSIGN_OR_RETURN(std::vector<int32_t> words, ReadInts(files, *codes));
    ASSIGN_OR_RETURN(std::vector<int32_t> points, ReadInts(files, *zeros));
    ASSIGN_OR_RETURN(std::vector<float> factors, ReadFinite(files, *scales));
    return std::unique_ptr<Rows>(
        std::make_unique<AwqRows>(*this, std::move(words), std::move(points), std::move(factors)));
  }
  const StoredTensor* codes = nullptr;
  const StoredTensor* zeros = nullptr;
  const StoredTensor* scales = nullptr;
};

}  // namespace

Result<Parsed> ParseAwq(const TensorStore& files, const JsonFile& config) {
  ASSIGN_OR_RETURN(const int bits, config.IntOr("bits", 4, 1, 32));
  if (bits != 4) return config.Refuse("bits", "of {} is not supported (4 is)", bits);
  ASSIGN_OR_RETURN(const std::string version, config.StringOr("version", "gemm"));
  if (version != "gemm" && version != "GEMM")
    return config.Refuse("version", "is {}, which is not supported (gemm is)", Quote(version));
  ASSIGN_OR_RETURN(const std::string backend, config.StringOr("backend", "autoawq"));
  if (backend != "autoawq")
    return config.Refuse("backend", "is {}, which is not supported (autoawq is)", Quote(backend));
  ASSIGN_OR_RETURN(const bool zero_point, config.BoolOr("zero_point", true));
  if (!zero_point) return config.Refuse("zero_point", "of false is not supported");
  ASSIGN_OR_RETURN(const int group_size, config.IntOr("group_size", 128, -1, 1 << 20));
  Parsed parsed;
  for (const std::string& module : ModulesWith(files, ".qweight")) {
    auto matrix = std::make_unique<AwqMatrix>();
    matrix->module = module;
    matrix->bits = bits;
    matrix->symmetric = false;
    const std::string begin = module + ".";
    ASSIGN_OR_RETURN(matrix->codes, ExpectMatrix(files, begin + "qweight", "I32"));
    matrix->rows = matrix->codes->shape.columns() * 8;
    matrix->columns = matrix->codes->shape.rows();
    RETURN_IF_ERROR(SetGroups(files, nullptr, group_size, matrix.get()));
    const int64_t groups = matrix->columns / matrix->group;
    ASSIGN_OR_RETURN(matrix->zeros,
                     ExpectStored(files, begin + "qzeros", {"I32"}, {matrix->rows / 8, groups}));
    ASSIGN_OR_RETURN(matrix->scales, ExpectStored(files, begin + "scales", {"F16", "BF16", "F32"},
                                                  {matrix->rows, groups}));
    matrix->scale_type = matrix->scales->stored_type;
    matrix->what = "AWQ 4-bit";
    parsed.matrices.push_back(std::move(matrix));
  }
  return parsed;
}

}  // namespace tutti::model::quantized
