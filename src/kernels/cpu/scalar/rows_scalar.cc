// Row operations in plain C++: the oracle of the vector ones.
#include "kernels/rows.h"

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

}  // namespace

const RowKernels& ScalarRowKernels() {
  static constexpr RowKernels kKernels = {"scalar", RmsNorm, LayerNorm, Add,
                                          Multiply, SiluMul, Argmax};
  return kKernels;
}

}  // namespace tutti::kernels
