#include "model/weights.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "model/weights_loader.h"

namespace tutti::model {

// The modes have the numbers of the format.
static_assert(static_cast<WeightMode>(packed::Arithmetic::kInt8) == WeightMode::kInt8 &&
              static_cast<WeightMode>(packed::Arithmetic::kF32) == WeightMode::kF32 &&
              static_cast<WeightMode>(packed::Arithmetic::kF16) == WeightMode::kF16 &&
              static_cast<WeightMode>(packed::Arithmetic::kBf16) == WeightMode::kBf16);
packed::Arithmetic ArithmeticOf(WeightMode mode) { return static_cast<packed::Arithmetic>(mode); }
WeightMode ModeOf(packed::Arithmetic arithmetic) { return static_cast<WeightMode>(arithmetic); }

int Projection::columns() const { return panels() * kernels::kPanelRows; }

int Projection::panels() const {
  int panels = 0;
  for (const kernels::PackedMatrix& part : parts) panels += kernels::PanelCount(part);
  return panels;
}

bool Projection::reads_quantized() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& p) { return kernels::IsQuantized(p.format); });
}

bool Projection::reads_floats() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& p) { return !kernels::IsQuantized(p.format); });
}

kernels::ScalePer Projection::activation_scale() const {
  for (const kernels::PackedMatrix& part : parts) {
    if (kernels::IsQuantized(part.format)) return kernels::ActivationScale(part);
  }
  return kernels::ScalePer::kBlock;
}

void Projection::KeepOutliers(kernels::QuantizedRows* rows) const {
  if (rows->scale != kernels::ScalePer::kBlock) return;
  rows->outliers = outliers.data();
  rows->outlier_count = static_cast<int32_t>(outliers.size());
}

Status Weights::Check(const DecoderCheckpoint& checkpoint) {
  return WeightsLoader(checkpoint, {}).Check();
}

Result<std::shared_ptr<const Weights>> Weights::Load(const DecoderCheckpoint& checkpoint,
                                                     const LoadOptions& options) {
  CHECK_GE(options.threads, 1);
  return WeightsLoader(checkpoint, options).Load();
}

Result<std::shared_ptr<const Weights>> Weights::Plan(const DecoderCheckpoint& checkpoint,
                                                     const LoadOptions& options) {
  return WeightsLoader(checkpoint, options).PlanOnly();
}

Result<std::shared_ptr<const Weights>> Weights::Load(const gguf::File& file,
                                                     const LoadOptions& options) {
  ASSIGN_OR_RETURN(const DecoderCheckpoint checkpoint, DecoderCheckpoint::FromGguf(file));
  return Load(checkpoint, options);
}

}  // namespace tutti::model
