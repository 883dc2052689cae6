// Row operations in plain C++: the oracle of the vector ones.
#include "kernels/rows.h"
#include "tensor/blocks.h"

namespace tutti::kernels {
namespace {

constexpr float kInfinity = __builtin_huge_valf();

void RmsNorm(const float* x, const float* weight, float eps, int32_t n, float* out) {
  float sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const float scale = 1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps);
  for (int32_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void LayerNorm(const float* x, const float* residual, const float* weight, const float* bias,
               float eps, int32_t n, float* out) {
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    out[i] = residual != nullptr ? x[i] + residual[i] : x[i];
    sum += static_cast<double>(out[i]);
  }
  const float mean = static_cast<float>(sum / n);
  double squares = 0;
  for (int32_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(out[i] - mean);
    squares += d * d;
  }
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(squares / n) + eps);
  for (int32_t i = 0; i < n; ++i)
    out[i] = __builtin_fmaf((out[i] - mean) * scale, weight[i], bias[i]);
}

void Add(float* x, const float* y, int32_t n) {
  for (int32_t i = 0; i < n; ++i) x[i] += y[i];
}

void Multiply(const float* x, const float* y, int32_t n, float* out) {
  for (int32_t i = 0; i < n; ++i) out[i] = x[i] * y[i];
}

void SiluMul(const float* gate, const float* up, int32_t n, float* out) {
  for (int32_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + __builtin_expf(-gate[i])) * up[i];
}

int32_t Argmax(const float* x, int32_t n) {
  float greatest = -kInfinity;
  int32_t best = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (x[i] > greatest) {
      greatest = x[i];
      best = i;
    }
  }
  return best;
}

float LowRankValue(const LowRankArgs& args, size_t index) {
  if (args.type == LowRankType::kF32) return static_cast<const float*>(args.weight)[index];
  const uint16_t bits = static_cast<const uint16_t*>(args.weight)[index];
  if (args.type == LowRankType::kF16) return tensor::HalfToFloat(bits);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  __builtin_memcpy(&value, &wide, sizeof value);
  return value;
}

void LowRank(const LowRankArgs& args, int32_t panel_begin, int32_t panel_end) {
  for (int32_t row = 0; row < args.rows; ++row) {
    for (int32_t panel = panel_begin; panel < panel_end; ++panel) {
      for (int32_t lane = 0; lane < kLowRankPanel; ++lane) {
        if (panel * kLowRankPanel + lane >= args.columns) break;
        float sum = 0;
        for (int32_t k = 0; k < args.inner; ++k) {
          const auto at =
              static_cast<size_t>(panel) * static_cast<size_t>(args.inner) + static_cast<size_t>(k);
          sum = __builtin_fmaf(LowRankValue(args, at * kLowRankPanel + static_cast<size_t>(lane)),
                               args.x[row][k], sum);
        }
        float& out = args.out[row][panel * args.out_step + lane];
        out = args.add ? __builtin_fmaf(sum, args.scale, out) : sum * args.scale;
      }
    }
  }
}

}  // namespace

const RowKernels& ScalarRowKernels() {
  static constexpr RowKernels kKernels = {"scalar", RmsNorm, LayerNorm, Add,
                                          Multiply, SiluMul, Argmax,    LowRank};
  return kKernels;
}

}  // namespace tutti::kernels
