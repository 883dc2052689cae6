// BitNet: ternary weights, four to a byte, with a scale of the matrix; or float weights that become
// ternary when they are read (`quantization_mode` online, the master weights).
//
// Shapes: weight U8 [rows / 4][columns], weight_scale [1]. Bits 2 i and 2 i + 1 of packed row p are
// those of row i * rows / 4 + p, plus 1. An element is scale * code, or with `linear_class`
// bitlinear code / scale. Online: an element is rounded to -1, 0 or 1 times the mean magnitude of
// its matrix. Source: transformers, integrations/bitnet.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/quote.h"
#include "model/quantized/scheme.h"

namespace tutti::model::quantized {
namespace {

constexpr int kMiddle = 8;  // the code of 4 bits that stands for 0

// Codes of -1, 0 and 1, and 2 of bits that no published matrix has.
class TernaryRows final : public Rows {
 public:
  TernaryRows(const Matrix& matrix, std::vector<int8_t> codes, float scale)
      : codes_(std::move(codes)), scale_(scale), columns_(static_cast<size_t>(matrix.columns)) {}

  void Read(int64_t row, Row* out) const override {
    const int8_t* const from = codes_.data() + static_cast<size_t>(row) * columns_;
    out->codes.resize(columns_);
    for (size_t k = 0; k < columns_; ++k) out->codes[k] = static_cast<int16_t>(kMiddle + from[k]);
    out->scales.assign(1, scale_);
    out->zeros.assign(1, kMiddle);
  }

 private:
  const std::vector<int8_t> codes_;
  const float scale_;
  const size_t columns_;
};

struct PackedMatrix final : Matrix {
  Result<std::unique_ptr<Rows>> Load(const TensorStore& files) const override {
    ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadBytes(files, *codes));
    ASSIGN_OR_RETURN(const std::vector<float> factors, ReadFinite(files, *scale));
    std::vector<int8_t> ternary(4 * bytes.size());
    for (size_t i = 0; i < ternary.size(); ++i) {
      const int shift = 2 * static_cast<int>(i / bytes.size());
      ternary[i] = static_cast<int8_t>((bytes[i % bytes.size()] >> shift & 3) - 1);
    }
    return std::unique_ptr<Rows>(std::make_unique<TernaryRows>(
        *this, std::move(ternary), divided ? 1 / factors[0] : factors[0]));
  }
  const StoredTensor* codes = nullptr;
  const StoredTensor* scale = nullptr;
  bool divided = false;
};

struct MasterMatrix final : Matrix {
  Result<std::unique_ptr<Rows>> Load(const TensorStore& files) const override {
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadFinite(files, *weights));
    double sum = 0;
    for (const float value : values) sum += static_cast<double>(std::fabs(value));
    const float mean =
        std::max(static_cast<float>(sum / static_cast<double>(values.size())), 1e-5F);
    const float inverse = 1 / mean;
    std::vector<int8_t> ternary(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ternary[i] =
          static_cast<int8_t>(std::clamp(std::nearbyint(values[i] * inverse), -1.0F, 1.0F));
    }
    return std::unique_ptr<Rows>(
        std::make_unique<TernaryRows>(*this, std::move(ternary), 1 / inverse));
  }
  const StoredTensor* weights = nullptr;
};

template <typename Kind>
std::unique_ptr<Kind> MakeTernary(std::string module, std::string_view what) {
  auto matrix = std::make_unique<Kind>();
  matrix->module = std::move(module);
  matrix->bits = 4;
  matrix->what = what;
  return matrix;
}

Status AddPacked(const TensorStore& files, const std::string& module, bool divided,
                 Parsed* parsed) {
  auto matrix = MakeTernary<PackedMatrix>(module, "BitNet ternary");
  ASSIGN_OR_RETURN(matrix->codes, ExpectMatrix(files, module + ".weight", "U8"));
  matrix->rows = 4 * matrix->codes->shape.rows();
  matrix->columns = matrix->codes->shape.columns();
  RETURN_IF_ERROR(SetGroups(files, nullptr, -1, matrix.get()));
  ASSIGN_OR_RETURN(matrix->scale,
                   ExpectStored(files, module + ".weight_scale", {"F32", "BF16", "F16"}, {1}));
  matrix->divided = divided;
  if (!divided) matrix->scale_type = matrix->scale->stored_type;
  parsed->matrices.push_back(std::move(matrix));
  return OkStatus();
}

Status AddMaster(const TensorStore& files, const std::string& module, Parsed* parsed) {
  auto matrix = MakeTernary<MasterMatrix>(module, "BitNet master weights");
  const std::string name = module + ".weight";
  matrix->weights = files.Find(name);
  const tensor::Shape& shape = matrix->weights->shape;
  if (shape.dims != 2 || shape.elements() == 0) {
    return InvalidArgument(files.shape_code(),
                           fmt::format("{} is {}, not a matrix", name, shape.ToString()));
  }
  matrix->rows = shape.rows();
  matrix->columns = shape.columns();
  RETURN_IF_ERROR(SetGroups(files, nullptr, -1, matrix.get()));
  parsed->matrices.push_back(std::move(matrix));
  return OkStatus();
}

}  // namespace

Result<Parsed> ParseBitNet(const TensorStore& files, const JsonFile& config) {
  ASSIGN_OR_RETURN(const std::string linear, config.StringOr("linear_class", "bitlinear"));
  if (linear != "bitlinear" && linear != "autobitlinear") {
    return config.Refuse("linear_class",
                         "is {}, which is not supported (bitlinear, autobitlinear are)",
                         Quote(linear));
  }
  ASSIGN_OR_RETURN(const std::string mode, config.StringOr("quantization_mode", "offline"));
  if (mode != "offline" && mode != "online") {
    return config.Refuse("quantization_mode", "is {}, which is not supported (offline, online are)",
                         Quote(mode));
  }
  ASSIGN_OR_RETURN(const bool norm, config.BoolOr("use_rms_norm", false));
  if (norm) return config.Refuse("use_rms_norm", "of true is not supported");
  Parsed parsed;
  const bool online = mode == "online" && linear == "autobitlinear";
  for (const std::string& end : ModulesWith(files, online ? "_proj.weight" : ".weight_scale")) {
    RETURN_IF_ERROR(online ? AddMaster(files, end + "_proj", &parsed)
                           : AddPacked(files, end, linear == "bitlinear", &parsed));
  }
  return parsed;
}

}  // namespace tutti::model::quantized
