#include "gateway/encode_result.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace tutti::gateway {
namespace {

// Keeps the first `kept` floats of each row of `width`, in place.
void CutRows(std::vector<float>& values, size_t width, size_t kept) {
  const size_t rows = values.size() / width;
  for (size_t row = 1; row < rows; ++row) {
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(row * width);
    std::copy(from, from + static_cast<std::ptrdiff_t>(kept),
              values.begin() + static_cast<std::ptrdiff_t>(row * kept));
  }
  values.resize(rows * kept);
}

void Normalize(std::span<float> row) {
  double squares = 0;
  for (const float value : row) squares += static_cast<double>(value) * static_cast<double>(value);
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& value : row) value = static_cast<float>(static_cast<double>(value) / length);
}

void Sigmoid(std::span<float> row) {
  for (float& value : row) value = 1 / (1 + std::exp(-value));
}

void Softmax(std::span<float> row) {
  const float greatest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (float& value : row) {
    value = std::exp(value - greatest);
    sum += static_cast<double>(value);
  }
  for (float& value : row) value = static_cast<float>(static_cast<double>(value) / sum);
}

}  // namespace

void EncodeFinish::operator()(api::EncodeResult& result) const {
  if (result.width <= 0) return;
  if (dimensions.has_value() && *dimensions < result.width) {
    CutRows(result.values, static_cast<size_t>(result.width), static_cast<size_t>(*dimensions));
    result.width = *dimensions;
  }
  const auto width = static_cast<size_t>(result.width);
  for (size_t at = 0; at + width <= result.values.size(); at += width) {
    const std::span<float> row(result.values.data() + at, width);
    if (normalize) Normalize(row);
    if (scale == ScoreScale::kSigmoid) Sigmoid(row);
    if (scale == ScoreScale::kSoftmax) Softmax(row);
  }
}

EncodeFinish FinishFor(const ServedEncoder& model, const api::EncodeRequest& request) {
  EncodeFinish finish;
  if (request.output == api::EncodeOutput::kPooled) {
    finish.dimensions = request.dimensions;
    finish.normalize = request.normalize.value_or(model.normalize);
  } else if (request.output == api::EncodeOutput::kTokens) {
    finish.normalize = model.normalize_tokens;
  } else if (!request.raw_scores) {
    finish.scale = model.scale;
  }
  return finish;
}

}  // namespace tutti::gateway
