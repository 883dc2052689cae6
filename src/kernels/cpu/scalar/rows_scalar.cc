// Row operations in plain C++: the oracle of the vector ones.
#include "kernels/rows.h"
#include "kernels/rows_top_k.h"

namespace tutti::kernels {
namespace {

constexpr float kInfinity = __builtin_huge_valf();

void RmsNorm(const float* x, const float* weight, float eps, int32_t n, float* out) {
  float sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const float scale = 1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps);
  for (int32_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void Add(float* x, const float* y, int32_t n) {
  for (int32_t i = 0; i < n; ++i) x[i] += y[i];
}

void SiluMul(const float* gate, const float* up, int32_t n, float* out) {
  for (int32_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + __builtin_expf(-gate[i])) * up[i];
}

void Exp(const float* x, int32_t n, float* out) {
  for (int32_t i = 0; i < n; ++i) out[i] = __builtin_expf(x[i]);
}

float Max(const float* x, int32_t n) {
  float greatest = -kInfinity;
  for (int32_t i = 0; i < n; ++i) greatest = x[i] > greatest ? x[i] : greatest;
  return greatest;
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

double LogSumExp(const float* x, int32_t n) {
  const float greatest = Max(x, n);
  if (greatest == -kInfinity) return -static_cast<double>(kInfinity);
  double sum = 0;
  for (int32_t i = 0; i < n; ++i)
    sum += __builtin_exp(static_cast<double>(x[i]) - static_cast<double>(greatest));
  return static_cast<double>(greatest) + __builtin_log(sum);
}

void Softmax(float* x, int32_t n) {
  const float greatest = Max(x, n);
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    x[i] = __builtin_expf(x[i] - greatest);
    sum += static_cast<double>(x[i]);
  }
  const float scale = static_cast<float>(1.0 / sum);
  for (int32_t i = 0; i < n; ++i) x[i] *= scale;
}

// Plain loops for what the vector tables do with compares and compressing stores.
void BlockMaxima(const float* x, int32_t n, float* maxima) {
  for (int32_t begin = 0; begin < n; begin += kTopKBlock) {
    const int32_t count = n - begin < kTopKBlock ? n - begin : kTopKBlock;
    *maxima++ = Max(x + begin, count);
  }
}

int32_t Collect(const float* x, int32_t begin, int32_t end, float threshold, RowCandidate* out) {
  int32_t found = 0;
  for (int32_t i = begin; i < end; ++i) {
    if (x[i] >= threshold) out[found++] = {x[i], i};
  }
  return found;
}

int32_t TopK(const float* x, int32_t n, int32_t k, RowCandidate* out, void* scratch) {
  return SelectTopK(x, n, k, BlockMaxima, Collect, out, scratch);
}

}  // namespace

const RowKernels& ScalarRowKernels() {
  static constexpr RowKernels kKernels = {"scalar", RmsNorm, Add,       SiluMul, Exp,
                                          Max,      Argmax,  LogSumExp, Softmax, TopK};
  return kKernels;
}

}  // namespace tutti::kernels
