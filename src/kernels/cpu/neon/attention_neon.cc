// Attention with NEON: float arithmetic; the cache in float, half precision or int8.
//
// Narrow key tiles are widened once per item into scratch that stays in the first-level cache,
// while the next tile is fetched; float tiles are used where they lie. Widening halves is exact, so
// both paths are one arithmetic.
//   scores   tile of MT rows x 32 keys (8 vectors), K [head_dim][32]
//   values   tile of MT rows x 32 dims (8 vectors), V [32][head_dim]
#include <arm_neon.h>

#include "kernels/attention.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/attention_driver.inc"

#define TUTTI_INLINE inline __attribute__((always_inline))

constexpr int kKeyVectors = kBlockTokens / 4;

// a if it is greater, else b; b also if either is a NaN.
TUTTI_INLINE float32x4_t Greater(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}

// 2^x for x <= 0: minimax of degree 5, relative error 1.6e-7; 0 below 2^-126.
TUTTI_INLINE float32x4_t Exp2Vector(float32x4_t x) {
  x = Greater(x, vdupq_n_f32(-127.0f));
  const float32x4_t n = vrndnq_f32(x);
  const float32x4_t r = vsubq_f32(x, n);
  float32x4_t p = vdupq_n_f32(1.326472716e-3f);
  p = vfmaq_f32(vdupq_n_f32(9.671512889e-3f), p, r);
  p = vfmaq_f32(vdupq_n_f32(5.550733746e-2f), p, r);
  p = vfmaq_f32(vdupq_n_f32(2.402224208e-1f), p, r);
  p = vfmaq_f32(vdupq_n_f32(6.931469776e-1f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
  const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
  return vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
}

// cap * tanh(x / cap), absolute error about 1e-7 * cap.
TUTTI_INLINE float32x4_t Softcap(float32x4_t x, float cap) {
  // 2^(-2 |x| / (cap ln 2)) = e^(-2 |x| / cap)
  const float32x4_t t = Exp2Vector(vmulq_n_f32(vabsq_f32(x), -2.0f * kLog2E / cap));
  const float32x4_t one = vdupq_n_f32(1.0f);
  const float32x4_t tanh = vdivq_f32(vsubq_f32(one, t), vaddq_f32(one, t));
  return vbslq_f32(vdupq_n_u32(0x80000000u), x, vmulq_n_f32(tanh, cap));
}

template <int kLane, int kVectors, int kRows>
TUTTI_INLINE void DotStep(float32x4_t (&sum)[kRows][kVectors], const float32x4_t (&x)[kRows],
                          const float* b) {
  TUTTI_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    const float32x4_t line = vld1q_f32(b + 4 * v);
    TUTTI_UNROLL(3)
    for (int m = 0; m < kRows; ++m) sum[m][v] = vfmaq_laneq_f32(sum[m][v], line, x[m], kLane);
  }
}

// sum[m][v] += a[m][steps] * b[steps][4 v]
template <int kVectors, int kRows>
TUTTI_INLINE void Dot(float32x4_t (&sum)[kRows][kVectors], const float* a, size_t a_stride,
                      const float* b, size_t b_stride, int32_t steps) {
  float32x4_t x[kRows];
  int32_t i = 0;
  for (; i + 4 <= steps; i += 4, b += 4 * b_stride) {
    TUTTI_UNROLL(3)
    for (int m = 0; m < kRows; ++m) x[m] = vld1q_f32(a + static_cast<size_t>(m) * a_stride + i);
    DotStep<0>(sum, x, b);
    DotStep<1>(sum, x, b + b_stride);
    DotStep<2>(sum, x, b + 2 * b_stride);
    DotStep<3>(sum, x, b + 3 * b_stride);
  }
  for (; i < steps; ++i, b += b_stride) {
    TUTTI_UNROLL(3)
    for (int m = 0; m < kRows; ++m) x[m] = vdupq_n_f32(a[static_cast<size_t>(m) * a_stride + i]);
    DotStep<0>(sum, x, b);
  }
}

struct Tile {
  const float* k;  // [head_dim][32]
  const float* v;  // [32][head_dim]
};

// Adds the values of keys [begin, end), each to the rows that see it.
template <int kVectors, int kRows>
TUTTI_INLINE void AddSeen(float32x4_t (&sum)[kRows][kVectors], const float* p, const float* v,
                          size_t dims, const uint32_t* seen, int32_t begin, int32_t end) {
  for (int32_t t = begin; t < end; ++t) {
    const float* line = v + static_cast<size_t>(t) * dims;
    TUTTI_UNROLL(3)
    for (int m = 0; m < kRows; ++m) {
      if ((seen[m] >> t & 1) != 0) {
        const float32x4_t x = vdupq_n_f32(p[m * kBlockTokens + t]);
        TUTTI_UNROLL(8)
        for (int u = 0; u < kVectors; ++u)
          sum[m][u] = vfmaq_f32(sum[m][u], vld1q_f32(line + 4 * u), x);
      }
    }
  }
}

template <int kVectors, int kRows>
TUTTI_INLINE void AddValues(const float* p, const float (&keep)[kRows], const float* v,
                            const TileKeys<kRows>& keys, int32_t head_dim, float* o) {
  const size_t dims = static_cast<size_t>(head_dim);
  float32x4_t sum[kRows][kVectors];
  TUTTI_UNROLL(3)
  for (int m = 0; m < kRows; ++m) {
    TUTTI_UNROLL(8)
    for (int u = 0; u < kVectors; ++u) {
      sum[m][u] = vmulq_n_f32(vld1q_f32(o + static_cast<size_t>(m) * dims + 4 * u), keep[m]);
    }
  }
  AddSeen<kVectors, kRows>(sum, p, v, dims, keys.seen, keys.begin, keys.all_begin);
  Dot<kVectors, kRows>(sum, p + keys.all_begin, kBlockTokens,
                       v + static_cast<size_t>(keys.all_begin) * dims, dims,
                       keys.all_end - keys.all_begin);
  AddSeen<kVectors, kRows>(sum, p, v, dims, keys.seen, keys.all_end, keys.end);
  TUTTI_UNROLL(3)
  for (int m = 0; m < kRows; ++m) {
    TUTTI_UNROLL(8)
    for (int u = 0; u < kVectors; ++u)
      vst1q_f32(o + static_cast<size_t>(m) * dims + 4 * u, sum[m][u]);
  }
}

// Scores of keys before `first` or after `last`, counted from the block's begin, become kNoScore.
TUTTI_INLINE void HideKeys(float32x4_t (&s)[kKeyVectors], int32_t first, int32_t last) {
  constexpr int32_t kFour[4] = {0, 1, 2, 3};
  int32x4_t key = vld1q_s32(kFour);
  TUTTI_UNROLL(8)
  for (int v = 0; v < kKeyVectors; ++v) {
    const uint32x4_t hidden =
        vorrq_u32(vcgtq_s32(key, vdupq_n_s32(last)), vcgtq_s32(vdupq_n_s32(first), key));
    s[v] = vbslq_f32(hidden, vdupq_n_f32(kNoScore), s[v]);
    key = vaddq_s32(key, vdupq_n_s32(4));
  }
}

template <int kRows>
__attribute__((noinline)) void RowsByTile(const RowStates& states, int32_t row, const Tile& tile,
                                          int32_t base, bool masked) {
  const int32_t head_dim = states.head_dim;
  const size_t dims = static_cast<size_t>(head_dim);
  float32x4_t s[kRows][kKeyVectors];
  TUTTI_UNROLL(3)
  for (int m = 0; m < kRows; ++m) {
    TUTTI_UNROLL(8)
    for (int v = 0; v < kKeyVectors; ++v) s[m][v] = vdupq_n_f32(0.0f);
  }
  Dot<kKeyVectors, kRows>(
      s, reinterpret_cast<const float*>(states.q) + static_cast<size_t>(row) * dims, dims, tile.k,
      kBlockTokens, head_dim);

  alignas(64) float p[kRows * kBlockTokens];
  float keep[kRows];
  TUTTI_UNROLL(3)
  for (int m = 0; m < kRows; ++m) {
    const int32_t r = row + m;
    if (states.softcap > 0) {
      TUTTI_UNROLL(8)
      for (int v = 0; v < kKeyVectors; ++v) s[m][v] = Softcap(s[m][v], states.softcap);
    }
    if (masked) HideKeys(s[m], states.first[r] - base, states.position[r] - base);
    const float before = states.m[r];
    float32x4_t most = s[m][0];
    TUTTI_UNROLL(8)
    for (int v = 1; v < kKeyVectors; ++v) most = vmaxnmq_f32(most, s[m][v]);
    float greatest = vmaxnmvq_f32(most);
    keep[m] = 1.0f;
    if (greatest > before) {
      keep[m] = vgetq_lane_f32(Exp2Vector(vdupq_n_f32(before - greatest)), 0);
      states.m[r] = greatest;
    } else {
      greatest = before;
    }
    float* lanes = states.l + static_cast<size_t>(r) * kLanes;
    float32x4_t sum[2] = {vmulq_n_f32(vld1q_f32(lanes), keep[m]),
                          vmulq_n_f32(vld1q_f32(lanes + 4), keep[m])};
    TUTTI_UNROLL(8)
    for (int v = 0; v < kKeyVectors; ++v) {
      const float32x4_t e = Exp2Vector(vsubq_f32(s[m][v], vdupq_n_f32(greatest)));
      vst1q_f32(p + m * kBlockTokens + 4 * v, e);
      sum[v % 2] = vaddq_f32(sum[v % 2], e);
    }
    vst1q_f32(lanes, sum[0]);
    vst1q_f32(lanes + 4, sum[1]);
  }

  const TileKeys<kRows> keys = masked ? KeysOfTile<kRows>(states, row, base) : TileKeys<kRows>{};
  float* o = states.o + static_cast<size_t>(row) * dims;
  int32_t first = 0;
  for (; first + 32 <= head_dim; first += 32) {
    AddValues<8, kRows>(p, keep, tile.v + first, keys, head_dim, o + first);
  }
  if (first < head_dim) AddValues<4, kRows>(p, keep, tile.v + first, keys, head_dim, o + first);
}

TUTTI_INLINE void Widen(const std::byte* halves, int32_t count, float* out) {
  const uint16_t* from = reinterpret_cast<const uint16_t*>(halves);
  for (int32_t i = 0; i < count; i += 8) {
    const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(from + i));
    vst1q_f32(out + i, vcvt_f32_f16(vget_low_f16(x)));
    vst1q_f32(out + i + 4, vcvt_f32_f16(vget_high_f16(x)));
  }
}

// Eight int8 to two vectors of floats.
TUTTI_INLINE void WidenEight(int8x8_t x, float32x4_t (&out)[2]) {
  const int16x8_t words = vmovl_s8(x);
  out[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
  out[1] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(words)));
}

void WidenInt8(const std::byte* head, const KvLayout& layout, int32_t keys, float* k, float* v) {
  const int32_t dims = layout.head_dim;
  const float* scales = reinterpret_cast<const float*>(head + layout.k_scale_offset);
  const int8_t* from = reinterpret_cast<const int8_t*>(head);
  float32x4_t wide[2];
  for (int32_t d = 0; d < dims; d += 2, k += 2 * kBlockTokens) {
    for (int32_t t = 0; t < kBlockTokens; t += 8, from += 16) {
      const int8x8x2_t pairs = vld2_s8(from);
      TUTTI_UNROLL(2)
      for (int i = 0; i < 2; ++i) {
        WidenEight(pairs.val[i], wide);
        float* to = k + i * kBlockTokens + t;
        vst1q_f32(to, vmulq_f32(wide[0], vld1q_f32(scales + t)));
        vst1q_f32(to + 4, vmulq_f32(wide[1], vld1q_f32(scales + t + 4)));
      }
    }
  }
  scales = reinterpret_cast<const float*>(head + layout.v_scale_offset);
  from = reinterpret_cast<const int8_t*>(head + layout.v_offset);
  for (int32_t t = 0; t < keys; t += 2, v += 2 * dims) {
    for (int32_t d = 0; d < dims; d += 8, from += 16) {
      const int8x8x2_t pairs = vld2_s8(from);
      TUTTI_UNROLL(2)
      for (int i = 0; i < 2; ++i) {  // the second is of no use where keys is odd
        WidenEight(pairs.val[i], wide);
        vst1q_f32(v + i * dims + d, vmulq_n_f32(wide[0], scales[t + i]));
        vst1q_f32(v + i * dims + d + 4, vmulq_n_f32(wide[1], scales[t + i]));
      }
    }
  }
}

inline float Exp2Float(float x) { return vgetq_lane_f32(Exp2Vector(vdupq_n_f32(x)), 0); }

void AppendHalf(const KvLayout& layout, std::byte* head, int32_t slot, const float* k,
                const float* v) {
  const int32_t head_dim = layout.head_dim;
  uint16_t* keys = reinterpret_cast<uint16_t*>(head) + slot;
  uint16_t* values = reinterpret_cast<uint16_t*>(head + layout.v_offset) + slot * head_dim;
  for (int32_t d = 0; d < head_dim; d += 4) {
    uint16_t four[4];
    vst1_u16(four, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(k + d))));
    for (int i = 0; i < 4; ++i) keys[(d + i) * kBlockTokens] = four[i];
    vst1_u16(values + d, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(v + d))));
  }
}

// x rounded to int8, scale = max|x| / 127; returns the scale.
float Quantise(const float* x, int32_t head_dim, int8_t* out) {
  float32x4_t greatest = vdupq_n_f32(1e-20f);
  for (int32_t d = 0; d < head_dim; d += 4)
    greatest = Greater(greatest, vabsq_f32(vld1q_f32(x + d)));
  const float top = vmaxnmvq_f32(greatest);
  const float inverse = 127.0f / top;
  for (int32_t d = 0; d < head_dim; d += 8) {
    const int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + d), inverse));
    const int32x4_t high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + d + 4), inverse));
    vst1_s8(out + d, vqmovn_s16(vcombine_s16(vqmovn_s32(low), vqmovn_s32(high))));
  }
  return top / 127.0f;
}

struct Lanes {
  static constexpr int kCount = 4;
  using Vector = float32x4_t;
  static Vector Load(const float* x) { return vld1q_f32(x); }
  static void Store(float* x, Vector v) { vst1q_f32(x, v); }
  static Vector Times(Vector v, float factor) { return vmulq_n_f32(v, factor); }
  static Vector Sum(Vector a, Vector b) { return vaddq_f32(a, b); }
  static Vector Difference(Vector a, Vector b) { return vsubq_f32(a, b); }
  static Vector Within(Vector v) {
    const Vector pairs = vrev64q_f32(v);
    v = vtrn1q_f32(vaddq_f32(v, pairs), vsubq_f32(v, pairs));
    const Vector halves = vextq_f32(v, v, 2);
    return vcombine_f32(vget_low_f32(vaddq_f32(v, halves)), vget_low_f32(vsubq_f32(v, halves)));
  }
};

#include "kernels/cpu/attention_append.inc"
#include "kernels/cpu/attention_tiles.inc"

}  // namespace

const AttentionKernels& NeonAttentionKernels() {
  static constexpr AttentionKernels kKernels = {"neon", KvFormat::kF16, RopeAppend, ScratchBytes,
                                                RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
