// Attention with AVX2 and FMA: float arithmetic; the cache in float, half precision or int8.
//
// Narrow key tiles are widened once per item into scratch that stays in the first-level cache,
// while the next tile is fetched; float tiles are used where they lie. Widening halves is exact, so
// both paths are one arithmetic.
//   scores   tile of MT rows x 32 keys (4 vectors), K [head_dim][32]
//   values   tile of MT rows x 32 dims (4 vectors), V [32][head_dim]
#include <immintrin.h>

#include "kernels/attention.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/attention_driver.inc"

#define TUTTI_INLINE inline __attribute__((always_inline))

// 2^x for x <= 0: minimax of degree 5, relative error 1.6e-7; 0 below 2^-126.
TUTTI_INLINE __m256 Exp2Vector(__m256 x) {
  x = _mm256_max_ps(x, _mm256_set1_ps(-127.0f));
  const __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 r = _mm256_sub_ps(x, n);
  __m256 p = _mm256_set1_ps(1.326472716e-3f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(9.671512889e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.550733746e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(2.402224208e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(6.931469776e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

// cap * tanh(x / cap), absolute error about 1e-7 * cap.
TUTTI_INLINE __m256 Softcap(__m256 x, float cap) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 size = _mm256_andnot_ps(sign, x);
  // 2^(-2 |x| / (cap ln 2)) = e^(-2 |x| / cap)
  const __m256 t = Exp2Vector(_mm256_mul_ps(size, _mm256_set1_ps(-2.0f * kLog2E / cap)));
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 tanh = _mm256_div_ps(_mm256_sub_ps(one, t), _mm256_add_ps(one, t));
  return _mm256_or_ps(_mm256_mul_ps(tanh, _mm256_set1_ps(cap)), _mm256_and_ps(sign, x));
}

TUTTI_INLINE float MaxOfLanes(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// sum[m][v] += a[m][steps] * b[steps][8 v]
template <int kVectors, int kRows>
TUTTI_INLINE void Dot(__m256 (&sum)[kRows][kVectors], const float* a, size_t a_stride,
                      const float* b, size_t b_stride, int32_t steps) {
  for (int32_t i = 0; i < steps; ++i) {
    __m256 x[kRows];
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m)
      x[m] = _mm256_broadcast_ss(a + static_cast<size_t>(m) * a_stride + i);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256 line = _mm256_loadu_ps(b + 8 * v);
#pragma GCC unroll 4
      for (int m = 0; m < kRows; ++m) sum[m][v] = _mm256_fmadd_ps(x[m], line, sum[m][v]);
    }
    b += b_stride;
  }
}

struct Tile {
  const float* k;  // [head_dim][32]
  const float* v;  // [32][head_dim]
};

// Adds the values of keys [begin, end), each to the rows that see it.
template <int kVectors, int kRows>
TUTTI_INLINE void AddSeen(__m256 (&sum)[kRows][kVectors], const float* p, const float* v,
                          size_t dims, const uint32_t* seen, int32_t begin, int32_t end) {
  for (int32_t t = begin; t < end; ++t) {
    const float* line = v + static_cast<size_t>(t) * dims;
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m) {
      if ((seen[m] >> t & 1) != 0) {
        const __m256 x = _mm256_broadcast_ss(p + m * kBlockTokens + t);
#pragma GCC unroll 4
        for (int u = 0; u < kVectors; ++u)
          sum[m][u] = _mm256_fmadd_ps(x, _mm256_loadu_ps(line + 8 * u), sum[m][u]);
      }
    }
  }
}

template <int kVectors, int kRows>
TUTTI_INLINE void AddValues(const float* p, const float (&keep)[kRows], const float* v,
                            const TileKeys<kRows>& keys, int32_t head_dim, float* o) {
  const size_t dims = static_cast<size_t>(head_dim);
  __m256 sum[kRows][kVectors];
#pragma GCC unroll 4
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int u = 0; u < kVectors; ++u) {
      sum[m][u] = _mm256_mul_ps(_mm256_loadu_ps(o + static_cast<size_t>(m) * dims + 8 * u),
                                _mm256_set1_ps(keep[m]));
    }
  }
  AddSeen<kVectors, kRows>(sum, p, v, dims, keys.seen, keys.begin, keys.all_begin);
  Dot<kVectors, kRows>(sum, p + keys.all_begin, kBlockTokens,
                       v + static_cast<size_t>(keys.all_begin) * dims, dims,
                       keys.all_end - keys.all_begin);
  AddSeen<kVectors, kRows>(sum, p, v, dims, keys.seen, keys.all_end, keys.end);
#pragma GCC unroll 4
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int u = 0; u < kVectors; ++u)
      _mm256_storeu_ps(o + static_cast<size_t>(m) * dims + 8 * u, sum[m][u]);
  }
}

template <int kRows>
__attribute__((noinline)) void RowsByTile(const RowStates& states, int32_t row, const Tile& tile,
                                          int32_t base, bool masked) {
  const int32_t head_dim = states.head_dim;
  const size_t dims = static_cast<size_t>(head_dim);
  __m256 s[kRows][4];
#pragma GCC unroll 4
  for (int m = 0; m < kRows; ++m) s[m][0] = s[m][1] = s[m][2] = s[m][3] = _mm256_setzero_ps();
  Dot<4, kRows>(s, reinterpret_cast<const float*>(states.q) + static_cast<size_t>(row) * dims, dims,
                tile.k, kBlockTokens, head_dim);

  alignas(32) float p[kRows * kBlockTokens];
  float keep[kRows];
#pragma GCC unroll 4
  for (int m = 0; m < kRows; ++m) {
    const int32_t r = row + m;
    if (states.softcap > 0) {
      for (int v = 0; v < 4; ++v) s[m][v] = Softcap(s[m][v], states.softcap);
    }
    if (masked) {
      const __m256i last = _mm256_set1_epi32(states.position[r] - base);
      const __m256i first = _mm256_set1_epi32(states.first[r] - base);
      __m256i key = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      for (int v = 0; v < 4; ++v) {
        const __m256 hidden = _mm256_castsi256_ps(
            _mm256_or_si256(_mm256_cmpgt_epi32(key, last), _mm256_cmpgt_epi32(first, key)));
        s[m][v] = _mm256_blendv_ps(s[m][v], _mm256_set1_ps(kNoScore), hidden);
        key = _mm256_add_epi32(key, _mm256_set1_epi32(8));
      }
    }
    const float before = states.m[r];
    float greatest =
        MaxOfLanes(_mm256_max_ps(_mm256_max_ps(s[m][0], s[m][1]), _mm256_max_ps(s[m][2], s[m][3])));
    keep[m] = 1.0f;
    if (greatest > before) {
      keep[m] = _mm256_cvtss_f32(Exp2Vector(_mm256_set1_ps(before - greatest)));
      states.m[r] = greatest;
    } else {
      greatest = before;
    }
    float* lanes = states.l + static_cast<size_t>(r) * kLanes;
    __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(lanes), _mm256_set1_ps(keep[m]));
    for (int v = 0; v < 4; ++v) {
      const __m256 e = Exp2Vector(_mm256_sub_ps(s[m][v], _mm256_set1_ps(greatest)));
      _mm256_store_ps(p + m * kBlockTokens + 8 * v, e);
      sum = _mm256_add_ps(sum, e);
    }
    _mm256_storeu_ps(lanes, sum);
  }

  const TileKeys<kRows> keys = masked ? KeysOfTile<kRows>(states, row, base) : TileKeys<kRows>{};
  float* o = states.o + static_cast<size_t>(row) * dims;
  int32_t first = 0;
  for (; first + 32 <= head_dim; first += 32) {
    AddValues<4, kRows>(p, keep, tile.v + first, keys, head_dim, o + first);
  }
  if (first < head_dim) AddValues<2, kRows>(p, keep, tile.v + first, keys, head_dim, o + first);
}

TUTTI_INLINE void Widen(const std::byte* halves, int32_t count, float* out) {
  const uint16_t* from = reinterpret_cast<const uint16_t*>(halves);
  for (int32_t i = 0; i < count; i += 16) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm256_castsi256_si128(x)));
    _mm256_storeu_ps(out + i + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)));
  }
}

// 16 bytes: 8 pairs. The first and the second of each.
TUTTI_INLINE void WidenPairs(const std::byte* pairs, __m256* first, __m256* second) {
  const __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs)));
  *first = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(x, 16), 16));
  *second = _mm256_cvtepi32_ps(_mm256_srai_epi32(x, 16));
}

void WidenInt8(const std::byte* head, const KvLayout& layout, int32_t keys, float* k, float* v) {
  const int32_t dims = layout.head_dim;
  __m256 a, b;
  const float* scales = reinterpret_cast<const float*>(head + layout.k_scale_offset);
  __m256 scale[4];
  for (int i = 0; i < 4; ++i) scale[i] = _mm256_loadu_ps(scales + 8 * i);
  const std::byte* from = head;
  for (int32_t d = 0; d < dims; d += 2, k += 2 * kBlockTokens) {
    for (int i = 0; i < 4; ++i, from += 16) {
      WidenPairs(from, &a, &b);
      _mm256_storeu_ps(k + 8 * i, _mm256_mul_ps(a, scale[i]));
      _mm256_storeu_ps(k + kBlockTokens + 8 * i, _mm256_mul_ps(b, scale[i]));
    }
  }
  scales = reinterpret_cast<const float*>(head + layout.v_scale_offset);
  from = head + layout.v_offset;
  for (int32_t t = 0; t < keys; t += 2, v += 2 * dims) {
    const __m256 even = _mm256_set1_ps(scales[t]);
    const __m256 odd = _mm256_set1_ps(scales[t + 1]);
    for (int32_t d = 0; d < dims; d += 8, from += 16) {
      WidenPairs(from, &a, &b);
      _mm256_storeu_ps(v + d, _mm256_mul_ps(a, even));
      _mm256_storeu_ps(v + dims + d, _mm256_mul_ps(b, odd));  // of no use where keys is odd
    }
  }
}

inline float Exp2Float(float x) { return _mm256_cvtss_f32(Exp2Vector(_mm256_set1_ps(x))); }

void AppendHalf(const KvLayout& layout, std::byte* head, int32_t slot, const float* k,
                const float* v) {
  const int32_t head_dim = layout.head_dim;
  uint16_t* keys = reinterpret_cast<uint16_t*>(head) + slot;
  uint16_t* values = reinterpret_cast<uint16_t*>(head + layout.v_offset) + slot * head_dim;
  for (int32_t d = 0; d < head_dim; d += 8) {
    alignas(16) uint16_t eight[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(eight),
                    _mm256_cvtps_ph(_mm256_loadu_ps(k + d), _MM_FROUND_TO_NEAREST_INT));
    for (int i = 0; i < 8; ++i) keys[(d + i) * kBlockTokens] = eight[i];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(values + d),
                     _mm256_cvtps_ph(_mm256_loadu_ps(v + d), _MM_FROUND_TO_NEAREST_INT));
  }
}

// x rounded to int8, scale = max|x| / 127; returns the scale.
float Quantise(const float* x, int32_t head_dim, int8_t* out) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 greatest = _mm256_set1_ps(1e-20f);
  for (int32_t d = 0; d < head_dim; d += 8)
    greatest = _mm256_max_ps(greatest, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + d)));
  const float top = MaxOfLanes(greatest);
  const __m256 inverse = _mm256_set1_ps(127.0f / top);
  for (int32_t d = 0; d < head_dim; d += 8) {
    const __m256i q = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + d), inverse));
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + d), _mm_packs_epi16(words, words));
  }
  return top / 127.0f;
}

struct Lanes {
  static constexpr int kCount = 8;
  using Vector = __m256;
  static Vector Load(const float* x) { return _mm256_loadu_ps(x); }
  static void Store(float* x, Vector v) { _mm256_storeu_ps(x, v); }
  static Vector Times(Vector v, float factor) { return _mm256_mul_ps(v, _mm256_set1_ps(factor)); }
  static Vector Sum(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector Difference(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  // For each pair of SIMD lanes: their sum in the first, their difference in the second.
  template <int kSecond>
  static Vector Fold(Vector v, Vector partner) {
    return _mm256_blend_ps(_mm256_add_ps(partner, v), _mm256_sub_ps(partner, v), kSecond);
  }
  static Vector Within(Vector v) {
    v = Fold<0xAA>(v, _mm256_permute_ps(v, 0xB1));
    v = Fold<0xCC>(v, _mm256_permute_ps(v, 0x4E));
    return Fold<0xF0>(v, _mm256_permute2f128_ps(v, v, 1));
  }
};

#include "kernels/cpu/attention_append.inc"
#include "kernels/cpu/attention_tiles.inc"

}  // namespace

const AttentionKernels& Avx2AttentionKernels() {
  static constexpr AttentionKernels kKernels = {"avx2", KvFormat::kF16, RopeAppend, ScratchBytes,
                                                RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
