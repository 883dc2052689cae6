#include <algorithm>
#include <cmath>

#include "tensor/blocks.h"
#include "tensor/quantize.h"

namespace tutti::tensor {
namespace {

constexpr int kLanes = 8;        // independent sums, so that they fit registers of any width
constexpr int kSteps = 20;       // steps tried around the one that spans a block exactly
constexpr int kRefinements = 2;  // codes and scales fitted to each other again

// To the nearest integer, halves to even: adding this leaves no fraction in a float of |x| < 2^22.
constexpr float kToInteger = 12582912.0f;

// More than any of the types can hold, and little enough that no sum of products overflows.
constexpr float kTooLarge = 1e9f;
constexpr uint16_t kInfiniteHalf = 0x7C00;

bool HoldsTooLarge(const float* in) {
  return std::any_of(in, in + kSuperBlock, [](float x) { return std::fabs(x) > kTooLarge; });
}

// w[i] of N elements; a block of zeros has weights of 0 and any scale.
template <int N>
void Weigh(const float* x, float* w) {
  float squares[kLanes] = {};
  for (int i = 0; i < N; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) squares[l] += x[i + l] * x[i + l];
  }
  double sum = 0;
  for (const float square : squares) sum += static_cast<double>(square);
  const float level = static_cast<float>(std::sqrt(sum / N));
  for (int i = 0; i < N; ++i) w[i] = level + std::fabs(x[i]);
}

// q[i] = the integer of [0, top] that is nearest to (x[i] + shift) * inverse.
template <int N>
void Codes(const float* x, float shift, float inverse, float top, float* q) {
  for (int i = 0; i < N; ++i) {
    float value = (x[i] + shift) * inverse;
    value = value > 0.0f ? value : 0.0f;  // also NaN, which scales beyond fp16 give
    value = value < top ? value : top;
    q[i] = value + kToInteger - kToInteger;
  }
}

struct Affine {
  float scale = 0;    // >= 0
  float minimum = 0;  // <= 0; an element is scale * q + minimum
  double error = 0;   // weighted, less the constant sum of w x^2
};

// The scale and minimum with the least error for these codes.
Affine Fit(const float* x, const float* w, const float* q) {
  float sums[5][kLanes] = {};  // of w, wq, wqq, wx, wqx
  for (int i = 0; i < kBlock; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float wq = w[i + l] * q[i + l];
      sums[0][l] += w[i + l];
      sums[1][l] += wq;
      sums[2][l] += wq * q[i + l];
      sums[3][l] += w[i + l] * x[i + l];
      sums[4][l] += wq * x[i + l];
    }
  }
  double s[5] = {};
  for (int k = 0; k < 5; ++k) {
    for (const float part : sums[k]) s[k] += static_cast<double>(part);
  }
  const double determinant = s[0] * s[2] - s[1] * s[1];
  double scale = 0;
  double minimum = 0;
  if (determinant > 0) {
    scale = (s[0] * s[4] - s[1] * s[3]) / determinant;
    minimum = (s[2] * s[3] - s[1] * s[4]) / determinant;
  }
  if (determinant <= 0 || minimum > 0) {  // the format has no positive minimums
    minimum = 0;
    scale = s[2] > 0 ? s[4] / s[2] : 0;
  }
  if (scale < 0) scale = 0;
  Affine out;
  out.scale = static_cast<float>(scale);
  out.minimum = static_cast<float>(minimum);
  out.error = scale * (scale * s[2] + 2 * minimum * s[1] - 2 * s[4]) +
              minimum * (minimum * s[0] - 2 * s[3]);
  return out;
}

Affine SearchAffine(const float* x, const float* w, float top) {
  const auto [low_at, high_at] = std::minmax_element(x, x + kBlock);
  const float low = std::min(*low_at, 0.0f);
  const float range = *high_at - low;
  Affine best;
  best.minimum = low;
  if (!(range > 0.0f)) return best;
  float q[kBlock];
  bool any = false;
  for (int step = 0; step <= kSteps; ++step) {
    const float levels = top - 1.0f + 0.1f * static_cast<float>(step);
    Codes<kBlock>(x, -low, levels / range, top, q);
    const Affine found = Fit(x, w, q);
    if (!any || found.error < best.error) best = found;
    any = true;
  }
  for (int round = 0; round < kRefinements; ++round) {
    Codes<kBlock>(x, -best.minimum, InverseOfScale(best.scale), top, q);
    const Affine found = Fit(x, w, q);
    if (!(found.error < best.error)) break;
    best = found;
  }
  return best;
}

// The weighted error of N elements that become scale * q + minimum with q as Codes gives it.
template <int N>
float ErrorOf(const float* x, const float* w, float scale, float minimum, float top) {
  float q[N];
  Codes<N>(x, -minimum, InverseOfScale(scale), top, q);
  float errors[kLanes] = {};
  for (int i = 0; i < N; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float off = scale * q[i + l] + minimum - x[i + l];
      errors[l] += w[i + l] * off * off;
    }
  }
  float sum = 0;
  for (const float error : errors) sum += error;
  return sum;
}

// Scales and minimums of 256 elements in six bits each, and the codes that belong to them.
void SearchK(const float* in, int top_code, uint16_t* d_bits, uint16_t* dmin_bits,
             uint8_t scales[12], uint8_t q[256]) {
  const float top = static_cast<float>(top_code);
  float w[kSuperBlock];
  Affine parts[8];
  float max_scale = 0;
  float max_minimum = 0;
  for (int j = 0; j < 8; ++j) {
    Weigh<kBlock>(in + 32 * j, w + 32 * j);
    parts[j] = SearchAffine(in + 32 * j, w + 32 * j, top);
    max_scale = std::max(max_scale, parts[j].scale);
    max_minimum = std::max(max_minimum, -parts[j].minimum);
  }
  *d_bits = FloatToHalf(max_scale / 63.0f);
  *dmin_bits = FloatToHalf(max_minimum / 63.0f);
  const float d = HalfToFloat(*d_bits);
  const float dmin = HalfToFloat(*dmin_bits);
  uint8_t sc[8];
  uint8_t mn[8];
  for (int j = 0; j < 8; ++j) {
    const float* x = in + 32 * j;
    const auto near = [](float value, float unit) {
      return static_cast<int>(std::clamp(value * InverseOfScale(unit) + 0.5f, 0.0f, 63.0f));
    };
    const int scale = near(parts[j].scale, d);
    const int minimum = near(-parts[j].minimum, dmin);
    float least = 0;
    bool any = false;
    for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, 63); ++s) {
      for (int m = std::max(minimum - 1, 0); m <= std::min(minimum + 1, 63); ++m) {
        const float error = ErrorOf<kBlock>(x, w + 32 * j, d * static_cast<float>(s),
                                            -dmin * static_cast<float>(m), top);
        if (any && !(error < least)) continue;
        any = true;
        least = error;
        sc[j] = static_cast<uint8_t>(s);
        mn[j] = static_cast<uint8_t>(m);
      }
    }
    float codes[kBlock];
    Codes<kBlock>(x, dmin * static_cast<float>(mn[j]),
                  InverseOfScale(d * static_cast<float>(sc[j])), top, codes);
    for (int i = 0; i < kBlock; ++i) q[32 * j + i] = static_cast<uint8_t>(codes[i]);
  }
  PackScalesK(sc, mn, scales);
}

void Search(const float* in, BlockQ4_K* block) {
  uint8_t q[256];
  SearchK(in, 15, &block->d, &block->dmin, block->scales, q);
  PackCodes(q, block);
}

void Search(const float* in, BlockQ5_K* block) {
  uint8_t q[256];
  SearchK(in, 31, &block->d, &block->dmin, block->scales, q);
  PackCodes(q, block);
}

constexpr int kPart = 16;  // elements that share a scale of Q6_K

// The signed step of 16 elements, as steps of -32 to 31.
float SearchSymmetric(const float* x, const float* w) {
  float extreme = 0;
  for (int i = 0; i < kPart; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (extreme == 0.0f) return 0.0f;
  float best_step = extreme / -32.0f;
  double best = 0;  // the part of sum w x^2 that the codes explain; more is better
  float q[kPart];
  for (int step = -9; step <= 9; ++step) {
    const float inverse = InverseOfScale(extreme / (-32.0f + 0.1f * static_cast<float>(step)));
    Codes<kPart>(x, 32.0f * InverseOfScale(inverse), inverse, 63.0f, q);
    float products[kLanes] = {};
    float squares[kLanes] = {};
    for (int i = 0; i < kPart; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) {
        const float code = q[i + l] - 32.0f;
        products[l] += w[i + l] * code * x[i + l];
        squares[l] += w[i + l] * code * code;
      }
    }
    double product = 0;
    double square = 0;
    for (int l = 0; l < kLanes; ++l) {
      product += static_cast<double>(products[l]);
      square += static_cast<double>(squares[l]);
    }
    if (square > 0 && product * product > best * square) {
      best = product * product / square;
      best_step = static_cast<float>(product / square);
    }
  }
  return best_step;
}

void Search(const float* in, BlockQ6_K* block) {
  float w[kSuperBlock];
  float steps[16];
  float extreme = 0;
  for (int j = 0; j < 16; ++j) {
    Weigh<kPart>(in + kPart * j, w + kPart * j);
    steps[j] = SearchSymmetric(in + kPart * j, w + kPart * j);
    if (std::fabs(steps[j]) > std::fabs(extreme)) extreme = steps[j];
  }
  block->d = FloatToHalf(extreme / -128.0f);
  const float d = HalfToFloat(block->d);
  uint8_t q[256];
  for (int j = 0; j < 16; ++j) {
    const float* x = in + kPart * j;
    const int near =
        static_cast<int>(std::clamp(std::round(steps[j] * InverseOfScale(d)), -128.0f, 127.0f));
    int chosen = near;
    float least = 0;
    bool any = false;
    for (int s = std::max(near - 1, -128); s <= std::min(near + 1, 127); ++s) {
      const float step = d * static_cast<float>(s);
      // Steps may be negative; the codes then run the other way.
      const float error = ErrorOf<kPart>(x, w + kPart * j, step, -32.0f * step, 63.0f);
      if (any && !(error < least)) continue;
      any = true;
      least = error;
      chosen = s;
    }
    block->scales[j] = static_cast<int8_t>(chosen);
    const float step = d * static_cast<float>(chosen);
    float codes[kPart];
    Codes<kPart>(x, 32.0f * step, InverseOfScale(step), 63.0f, codes);
    for (int i = 0; i < kPart; ++i) q[kPart * j + i] = static_cast<uint8_t>(codes[i]);
  }
  PackCodes(q, block);
}

template <typename Block>
void SearchBlocks(const float* in, void* blocks, int64_t n) {
  Block* block = static_cast<Block*>(blocks);
  for (int64_t i = 0; i < n; i += kSuperBlock, ++block) {
    if (HoldsTooLarge(in + i)) {
      *block = {};
      block->d = kInfiniteHalf;
    } else {
      Search(in + i, block);
    }
  }
}

}  // namespace

void QuantizeRowSearched(DType dtype, const float* in, void* blocks, int64_t n) {
  (void)RowBytes(dtype, n);  // checks n
  switch (dtype) {
    case DType::kQ4_K:
      return SearchBlocks<BlockQ4_K>(in, blocks, n);
    case DType::kQ5_K:
      return SearchBlocks<BlockQ5_K>(in, blocks, n);
    case DType::kQ6_K:
      return SearchBlocks<BlockQ6_K>(in, blocks, n);
    default:
      return QuantizeRow(dtype, in, blocks, n);
  }
}

}  // namespace tutti::tensor
