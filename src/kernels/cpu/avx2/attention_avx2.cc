// Attention with AVX2 and FMA: float arithmetic; the cache in float or half precision.
//
// Key tiles in half precision are widened once per item into scratch that stays in the first-level
// cache, while the next tile is fetched; float tiles are used where they lie. Widening is exact, so
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

template <int kVectors, int kRows>
TUTTI_INLINE void AddValues(const float* p, const float (&keep)[kRows], const float* v,
                            int32_t keys, int32_t head_dim, float* o) {
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
  Dot<kVectors, kRows>(sum, p, kBlockTokens, v, dims, keys);
#pragma GCC unroll 4
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int u = 0; u < kVectors; ++u)
      _mm256_storeu_ps(o + static_cast<size_t>(m) * dims + 8 * u, sum[m][u]);
  }
}

template <int kRows>
__attribute__((noinline)) void RowsByTile(const RowStates& states, int32_t row, const Tile& tile,
                                          int32_t base, bool diagonal) {
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
    if (diagonal) {
      const __m256i last = _mm256_set1_epi32(states.position[r] - base);
      __m256i key = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      for (int v = 0; v < 4; ++v) {
        const __m256 hidden = _mm256_castsi256_ps(_mm256_cmpgt_epi32(key, last));
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

  const int32_t last_row = states.position[row + kRows - 1] - base + 1;
  const int32_t keys = last_row < kBlockTokens ? last_row : kBlockTokens;
  float* o = states.o + static_cast<size_t>(row) * dims;
  int32_t first = 0;
  for (; first + 32 <= head_dim; first += 32) {
    AddValues<4, kRows>(p, keep, tile.v + first, keys, head_dim, o + first);
  }
  if (first < head_dim) AddValues<2, kRows>(p, keep, tile.v + first, keys, head_dim, o + first);
}

// kHalf: the cache is half precision and is widened tile by tile.
template <bool kHalf>
struct TileForm {
  static constexpr int kTileRows = 3;
  using Block = Tile;

  static size_t QueryBytes(int32_t head_dim) {
    return static_cast<size_t>(head_dim) * sizeof(float);
  }
  static size_t BlockBytes(int32_t head_dim) {
    return kHalf ? 2 * static_cast<size_t>(head_dim) * kBlockTokens * sizeof(float) : 0;
  }

  static void PrepareQuery(const float* q, int32_t head_dim, float scale, std::byte* dst,
                           float* q_scale) {
    float* out = reinterpret_cast<float*>(dst);
    for (int32_t d = 0; d < head_dim; ++d) out[d] = q[d] * scale;
    *q_scale = 1.0f;
  }

  static TUTTI_INLINE void Widen(const std::byte* halves, int32_t count, float* out) {
    const uint16_t* from = reinterpret_cast<const uint16_t*>(halves);
    for (int32_t i = 0; i < count; i += 16) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm256_castsi256_si128(x)));
      _mm256_storeu_ps(out + i + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)));
    }
  }

  static Block LoadBlock(const std::byte* head, const KvLayout& layout, int32_t keys,
                         std::byte* scratch) {
    if (!kHalf) {
      return {reinterpret_cast<const float*>(head),
              reinterpret_cast<const float*>(head + layout.v_offset)};
    }
    float* wide = reinterpret_cast<float*>(scratch);
    const int32_t count = layout.head_dim * kBlockTokens;
    Widen(head, count, wide);
    Widen(head + layout.v_offset, keys * layout.head_dim, wide + count);
    return {wide, wide + count};
  }

  static TUTTI_INLINE void Rows(const RowStates& states, int32_t row, int32_t count,
                                const Block& block, int32_t base, bool diagonal,
                                const std::byte* next) {
    if (row < kTileRows)
      Prefetch(next, static_cast<size_t>(states.head_dim) * kBlockTokens * (kHalf ? 4 : 8));
    switch (count) {
      case 1:
        return RowsByTile<1>(states, row, block, base, diagonal);
      case 2:
        return RowsByTile<2>(states, row, block, base, diagonal);
      default:
        return RowsByTile<3>(states, row, block, base, diagonal);
    }
  }

  static TUTTI_INLINE void Prefetch(const std::byte* next, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
      _mm_prefetch(reinterpret_cast<const char*>(next + i), _MM_HINT_T1);
  }

  static float Exp2(float x) { return _mm256_cvtss_f32(Exp2Vector(_mm256_set1_ps(x))); }
};

void RotateHead(const AttentionShape& shape, const float* cos_sin, float* x) {
  const int32_t half = shape.rope_dims / 2;
  const int32_t step = shape.rope_mode == RopeMode::kAdjacent ? 2 : 1;
  const int32_t partner = shape.rope_mode == RopeMode::kAdjacent ? 1 : half;
  for (int32_t i = 0; i < half; ++i) {
    const float c = cos_sin[i];
    const float s = cos_sin[half + i];
    const float a = x[i * step];
    const float b = x[i * step + partner];
    x[i * step] = a * c - b * s;
    x[i * step + partner] = a * s + b * c;
  }
}

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

void AppendFloat(const KvLayout& layout, std::byte* head, int32_t slot, const float* k,
                 const float* v) {
  float* keys = reinterpret_cast<float*>(head) + slot;
  float* values = reinterpret_cast<float*>(head + layout.v_offset) + slot * layout.head_dim;
  for (int32_t d = 0; d < layout.head_dim; ++d) {
    keys[d * kBlockTokens] = k[d];
    values[d] = v[d];
  }
}

void RopeAppend(const RopeAppendArgs& args, int32_t row_begin, int32_t row_end) {
  const AttentionShape& shape = args.shape;
  const int32_t head_dim = shape.head_dim;
  const auto append = args.layout.format == KvFormat::kF32 ? AppendFloat : AppendHalf;
  for (int32_t r = row_begin; r < row_end; ++r) {
    const RowPlace place = args.rows[r];
    float* q = args.qkv + static_cast<size_t>(r) * args.stride;
    const float* k = q + shape.heads * head_dim;
    const float* v = k + shape.kv_heads * head_dim;
    if (shape.rope_mode != RopeMode::kNone) {
      const float* cos_sin =
          args.cos_sin + static_cast<size_t>(place.position) * static_cast<size_t>(shape.rope_dims);
      for (int32_t h = 0; h < shape.heads + shape.kv_heads; ++h)
        RotateHead(shape, cos_sin, q + h * head_dim);
    }
    const int32_t slot = place.position % kBlockTokens;
    std::byte* head = args.kv.base + static_cast<size_t>(place.block) * args.kv.block_stride;
    for (int32_t h = 0; h < shape.kv_heads; ++h, head += args.layout.head_bytes) {
      append(args.layout, head, slot, k + h * head_dim, v + h * head_dim);
    }
  }
}

size_t ScratchBytes(const AttentionShape& shape) {
  return FormScratchBytes<TileForm<true>>(shape.head_dim);
}

void RunItem(const AttentionArgs& args, const AttentionWork& work, int32_t index,
             std::byte* scratch) {
  if (args.layout.format == KvFormat::kF32) {
    RunItemForm<TileForm<false>>(args, work, index, scratch);
  } else {
    RunItemForm<TileForm<true>>(args, work, index, scratch);
  }
}

}  // namespace

const AttentionKernels& Avx2AttentionKernels() {
  static constexpr AttentionKernels kKernels = {"avx2", KvFormat::kF16, RopeAppend, ScratchBytes,
                                                RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
