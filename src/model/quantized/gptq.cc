// GPTQ: words of codes along the columns, with a zero point and a scale per group and output.
//
// Shapes: qweight I32 [columns / n][rows], qzeros I32 [groups][rows / n], scales [groups][rows],
// g_idx I32 [columns]; n = 32 / bits. An element is scale * (code - zero); the first version of
// the format stores zero - 1. Source: AutoGPTQ and GPTQModel, nn_modules/qlinear.
#include <fmt/format.h>

#include <utility>

#include "base/quote.h"
#include "model/quantized/scheme.h"

namespace tutti::model::quantized {
namespace {

class GptqRows final : public Rows {
 public:
  GptqRows(const Matrix& matrix, std::vector<int32_t> codes, std::vector<int32_t> zeros,
           std::vector<float> scales, int zero_offset)
      : codes_(std::move(codes)),
        zeros_(std::move(zeros)),
        scales_(std::move(scales)),
        rows_(static_cast<size_t>(matrix.rows)),
        columns_(static_cast<size_t>(matrix.columns)),
        groups_(static_cast<size_t>(matrix.columns / matrix.group)),
        bits_(static_cast<size_t>(matrix.bits)),
        zero_offset_(zero_offset) {}

  void Read(int64_t number, Row* out) const override {
    const auto row = static_cast<size_t>(number);
    const size_t per_word = 32 / bits_;
    // Codes of 8 bits become signed, with their zero points.
    const int middle = bits_ == 8 ? 128 : 0;
    out->codes.resize(columns_);
    for (size_t k = 0; k < columns_; ++k)
      out->codes[k] =
          static_cast<int16_t>(Code(codes_[k / per_word * rows_ + row], k % per_word) - middle);
    out->scales.resize(groups_);
    out->zeros.resize(groups_);
    for (size_t g = 0; g < groups_; ++g) {
      out->scales[g] = scales_[g * rows_ + row];
      const int stored = Code(zeros_[g * (rows_ / per_word) + row / per_word], row % per_word);
      const int mask = (1 << bits_) - 1;
      out->zeros[g] = static_cast<int16_t>(((stored + zero_offset_) & mask) - middle);
    }
  }

 private:
  int Code(int32_t word, size_t place) const {
    return static_cast<int>((static_cast<uint32_t>(word) >> (place * bits_)) & ((1U << bits_) - 1));
  }

  const std::vector<int32_t> codes_, zeros_;
  const std::vector<float> scales_;
  const size_t rows_, columns_, groups_, bits_;
  const int zero_offset_;
};

struct GptqMatrix final : Matrix {
  Result<std::unique_ptr<Rows>> Load(const TensorStore& files) const override {
    ASSIGN_OR_RETURN(std::vector<int32_t> words, ReadInts(files, *codes));
    ASSIGN_OR_RETURN(std::vector<int32_t> points, ReadInts(files, *zeros));
    ASSIGN_OR_RETURN(std::vector<float> factors, ReadFinite(files, *scales));
    return std::unique_ptr<Rows>(std::make_unique<GptqRows>(
        *this, std::move(words), std::move(points), std::move(factors), zero_offset));
  }
  const StoredTensor* codes = nullptr;
  const StoredTensor* zeros = nullptr;
  const StoredTensor* scales = nullptr;
  int zero_offset = 1;
};

// A symmetric quantization has the middle code as each zero point.
Status CheckSymmetric(const TensorStore& files, const GptqMatrix& matrix, const JsonFile& config) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> words, ReadInts(files, *matrix.zeros));
  const auto bits = static_cast<uint32_t>(matrix.bits);
  const uint32_t middle = 1U << (bits - 1);
  uint32_t wanted = 0;
  for (uint32_t at = 0; at < 32; at += bits)
    wanted |= (middle - static_cast<uint32_t>(matrix.zero_offset)) << at;
  for (const int32_t word : words) {
    if (static_cast<uint32_t>(word) != wanted)
      return config.Refuse("sym", "is true, but {} has a zero point other than {}",
                           matrix.zeros->Named(), middle);
  }
  return OkStatus();
}

}  // namespace

Result<Parsed> ParseGptq(const TensorStore& files, const JsonFile& config) {
  ASSIGN_OR_RETURN(const int bits, config.Int("bits", 1, 32));
  if (bits != 4 && bits != 8)
    return config.Refuse("bits", "of {} is not supported (4 and 8 are)", bits);
  ASSIGN_OR_RETURN(const int group_size, config.IntOr("group_size", 128, -1, 1 << 20));
  ASSIGN_OR_RETURN(const bool symmetric, config.BoolOr("sym", true));
  ASSIGN_OR_RETURN(const std::string format, config.StringOr("checkpoint_format", "gptq"));
  if (format != "gptq" && format != "gptq_v2")
    return config.Refuse("checkpoint_format", "is {}, which is not supported (gptq, gptq_v2 are)",
                         Quote(format));
  ASSIGN_OR_RETURN(const bool marlin, config.BoolOr("is_marlin_format", false));
  if (marlin) return config.Refuse("is_marlin_format", "of true is not supported");
  const boost::json::value* dynamic = config.Find("dynamic");
  if (dynamic != nullptr && !(dynamic->is_object() && dynamic->get_object().empty()))
    return config.Refuse("dynamic", "is not supported: settings of single modules");
  Parsed parsed;
  for (const std::string& module : ModulesWith(files, ".qweight")) {
    auto matrix = std::make_unique<GptqMatrix>();
    matrix->module = module;
    matrix->bits = bits;
    matrix->zero_offset = format == "gptq" ? 1 : 0;
    const std::string begin = module + ".";
    const int64_t per_word = 32 / bits;
    ASSIGN_OR_RETURN(matrix->codes, ExpectMatrix(files, begin + "qweight", "I32"));
    matrix->rows = matrix->codes->shape.columns();
    matrix->columns = matrix->codes->shape.rows() * per_word;
    const StoredTensor* g_idx = nullptr;
    if (files.Find(begin + "g_idx") != nullptr) {
      ASSIGN_OR_RETURN(g_idx, ExpectStored(files, begin + "g_idx", {"I32"}, {matrix->columns}));
    }
    RETURN_IF_ERROR(SetGroups(files, g_idx, group_size, matrix.get()));
    if (matrix->rows % per_word != 0)
      return InvalidArgument(files.shape_code(),
                             fmt::format("{} has {} outputs, not a multiple of {}",
                                         matrix->codes->Named(), matrix->rows, per_word));
    const int64_t groups = matrix->columns / matrix->group;
    ASSIGN_OR_RETURN(matrix->zeros, ExpectStored(files, begin + "qzeros", {"I32"},
                                                 {matrix->rows / per_word, groups}));
    ASSIGN_OR_RETURN(matrix->scales, ExpectStored(files, begin + "scales", {"F16", "BF16", "F32"},
                                                  {matrix->rows, groups}));
    matrix->scale_type = matrix->scales->stored_type;
    matrix->symmetric = symmetric;
    matrix->what = fmt::format("GPTQ {}-bit", bits);
    if (symmetric) RETURN_IF_ERROR(CheckSymmetric(files, *matrix, config));
    parsed.matrices.push_back(std::move(matrix));
  }
  return parsed;
}

}  // namespace tutti::model::quantized
