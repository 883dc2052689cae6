#include "model/relative_positions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "kernels/pack.h"

namespace tutti::model {
namespace {

constexpr size_t kFloatsOfLine = kernels::kCacheLine / sizeof(float);

}  // namespace

// Distances up to half of the buckets have one each; the others are by logarithm, in float32 as in
// transformers, so that a distance at a border falls on the same side.
int RelativeRow(const EncoderConfig::Relative& relative, int distance) {
  int bucket = distance;
  const int middle = relative.buckets / 2;
  const int length = std::abs(distance);
  if (relative.buckets > 0 && length > middle) {
    const float place =
        std::log(static_cast<float>(length) / static_cast<float>(middle)) /
        std::log(static_cast<float>(relative.farthest - 1) / static_cast<float>(middle));
    const auto beyond = static_cast<int>(std::ceil(place * static_cast<float>(middle - 1)));
    bucket = (beyond + middle) * (distance < 0 ? -1 : 1);
  }
  return std::clamp(bucket + relative.span, 0, 2 * relative.span - 1);
}

class RelativeMaker {
 public:
  RelativeMaker(const EncoderConfig& config, const TensorStore& store,
                const kernels::KernelTable& kernels)
      : config_(config),
        store_(store),
        kernels_(kernels),
        width_(static_cast<size_t>(config.width)),
        rows_(2 * config.relative.span),
        made_(new RelativePositions()) {}

  Result<std::shared_ptr<const RelativePositions>> Make(const RelativeTensors& tensors) {
    RETURN_IF_ERROR(Allocate(tensors.layers.size()));
    RETURN_IF_ERROR(ReadEmbeddings(tensors));
    for (size_t i = 0; i < tensors.layers.size(); ++i) {
      RETURN_IF_ERROR(MakeTable(tensors.layers[i].keys, 2 * i));
      RETURN_IF_ERROR(MakeTable(tensors.layers[i].queries, 2 * i + 1));
    }
    return std::shared_ptr<const RelativePositions>(std::move(made_));
  }

 private:
  Status Allocate(size_t layers) {
    // No text has farther tokens, and beyond the greatest distance all have its row.
    made_->farthest_ = std::min(config_.relative.farthest, config_.longest());
    const int32_t half = made_->farthest_ + kernels::kSpanTileRows;
    const auto distances = static_cast<size_t>(2 * half + 1);
    made_->stride_ = (distances + kFloatsOfLine - 1) / kFloatsOfLine * kFloatsOfLine;
    made_->table_floats_ = width_ * made_->stride_;
    ASSIGN_OR_RETURN(made_->memory_, kernels::AlignedBuffer::Allocate(
                                         2 * layers * made_->table_floats_ * sizeof(float)));
    for (int32_t d = -half; d <= half; ++d) {
      const int32_t distance = std::clamp(d, -made_->farthest_, made_->farthest_);
      row_of_.push_back(static_cast<size_t>(RelativeRow(config_.relative, distance)));
    }
    return OkStatus();
  }

  Status ReadEmbeddings(const RelativeTensors& tensors) {
    ASSIGN_OR_RETURN(embeddings_, ReadFinite(store_, *tensors.embeddings));
    if (tensors.norm_weight == nullptr) return OkStatus();
    ASSIGN_OR_RETURN(const std::vector<float> weight, ReadFinite(store_, *tensors.norm_weight));
    ASSIGN_OR_RETURN(const std::vector<float> bias, ReadFinite(store_, *tensors.norm_bias));
    for (size_t i = 0; i < embeddings_.size(); i += width_) {
      float* row = embeddings_.data() + i;
      kernels_.rows.layer_norm(row, nullptr, weight.data(), bias.data(), config_.norm_eps,
                               config_.width, row);
    }
    return OkStatus();
  }

  // An absent term has a table of zeros.
  Status MakeTable(const RelativeProjection& projection, size_t number) {
    if (projection.weight == nullptr) return OkStatus();
    ASSIGN_OR_RETURN(const std::vector<float> weight, ReadFinite(store_, *projection.weight));
    ASSIGN_OR_RETURN(std::vector<float> bias, ReadFinite(store_, *projection.bias));
    const tensor::TensorView view = {tensor::DType::kF32, projection.weight->shape,
                                     reinterpret_cast<const std::byte*>(weight.data())};
    ASSIGN_OR_RETURN(
        const kernels::OwnedMatrix matrix,
        kernels::PackMatrix(kernels::ConcatenateRows({view}, kernels::WeightFormat::kF32)));
    const auto columns = static_cast<size_t>(matrix.view.rows);
    bias.resize(columns);
    std::vector<float> projected(static_cast<size_t>(rows_) * columns);
    ASSIGN_OR_RETURN(
        kernels::AlignedBuffer scratch,
        kernels::AlignedBuffer::Allocate(kernels::GemmScratchBytes(rows_, config_.width)));
    kernels::GemmArgs args;
    args.weight = matrix.view;
    args.rows = rows_;
    args.bias = bias.data();
    args.x_f32 = embeddings_.data();
    args.x_stride = width_;
    args.out = projected.data();
    args.out_stride = columns;
    kernels_.gemm.gemm(args, 0, kernels::PanelCount(matrix.view), scratch.data());
    float* const table = made_->table(number);
    for (size_t d = 0; d < row_of_.size(); ++d) {
      const float* row = projected.data() + row_of_[d] * columns;
      for (size_t dim = 0; dim < width_; ++dim) table[dim * made_->stride_ + d] = row[dim];
    }
    return OkStatus();
  }

  const EncoderConfig& config_;
  const TensorStore& store_;
  const kernels::KernelTable& kernels_;
  const size_t width_;
  const int rows_;
  std::vector<float> embeddings_;  // [rows_][width_], normalised where the model does so
  std::vector<size_t> row_of_;     // by distance, from the least on
  std::unique_ptr<RelativePositions> made_;
};

float* RelativePositions::table(size_t number) {
  return reinterpret_cast<float*>(memory_.data()) + number * table_floats_;
}

kernels::SpanRelative RelativePositions::layer(int index) const {
  const auto* keys = reinterpret_cast<const float*>(memory_.data()) +
                     2 * static_cast<size_t>(index) * table_floats_ +
                     static_cast<size_t>(farthest_ + kernels::kSpanTileRows);
  return {keys, keys + table_floats_, stride_, farthest_};
}

Result<std::shared_ptr<const RelativePositions>> RelativePositions::Make(
    const EncoderConfig& config, const RelativeTensors& tensors, const TensorStore& store,
    const kernels::KernelTable& kernels) {
  CHECK_GT(config.relative.span, 0);
  return RelativeMaker(config, store, kernels).Make(tensors);
}

}  // namespace tutti::model
