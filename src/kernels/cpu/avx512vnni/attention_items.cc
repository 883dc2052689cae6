// Attention items with AVX-512: int16 dot products (vpdpwssd) for the 16-bit cache and for the
// 8-bit one, whose lines are widened on their way, FMA for the float one.
//
// One kernel serves prefill and decode; only the number of rows per tile differs. The cache lies in
// the order the multiply reads it, so nothing is converted:
//   scores   tile of MT rows x 32 keys:  query pairs broadcast, keys in lanes,
//            K [head_dim/2][32][2]
//   values   tile of MT rows x 64 dims:  probability pairs broadcast, dims in lanes,
//            V [16][head_dim][2]
// Probabilities are scaled to int16 with the value's own scale folded in, relative to the greatest
// value scale among the keys the row sees (running, so that a block still filling up does not
// change rows already computed). Error against float64 on Gaussian data: about 0.05 % relative L2
// (bfloat16 products: 0.4 %).
#include <immintrin.h>

#include "kernels/attention.h"
#include "kernels/cpu/avx512vnni/attention_avx512.h"

namespace tutti::kernels {
namespace {

using avx512vnni::kProbabilityTop8;
using avx512vnni::kQueryTop8;
using avx512vnni::kScoreTops;
using avx512vnni::kValueTop;

#include "kernels/cpu/attention_driver.inc"
#include "kernels/cpu/avx512vnni/attention_softmax.inc"

struct Int16 {
  static constexpr bool kQuantised = true;
  static constexpr int kPerLane = 2;     // values of the sum per 32-bit lane
  static constexpr int kLineBytes = 64;  // in the cache, of 16 lanes
  static constexpr int kProbabilityTop = kValueTop;
  static int32_t QueryTop(int32_t head_dim) { return kScoreTops[head_dim / 16]; }
  static TUTTI_INLINE __m512i Load(const std::byte* line) { return _mm512_load_si512(line); }
  static TUTTI_INLINE void Multiply(__m512i& sum, __m512i b, __m512i x) {
    sum = _mm512_dpwssd_epi32(sum, b, x);
  }
};
struct Int8 : Int16 {
  static constexpr int kLineBytes = 32;
  static constexpr int kProbabilityTop = kProbabilityTop8;
  static int32_t QueryTop(int32_t /*head_dim*/) { return kQueryTop8; }
  static TUTTI_INLINE __m512i Load(const std::byte* line) {
    return _mm512_cvtepi8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(line)));
  }
};
struct Float32 {
  static constexpr bool kQuantised = false;
  static constexpr int kPerLane = 1;
  static constexpr int kLineBytes = 64;
  static constexpr int kProbabilityTop = 1;
  static int32_t QueryTop(int32_t /*head_dim*/) { return 1; }
  static TUTTI_INLINE __m512i Load(const std::byte* line) { return _mm512_load_si512(line); }
  static TUTTI_INLINE void Multiply(__m512i& sum, __m512i b, __m512i x) {
    sum = _mm512_castps_si512(
        _mm512_fmadd_ps(_mm512_castsi512_ps(b), _mm512_castsi512_ps(x), _mm512_castsi512_ps(sum)));
  }
};

// sum[m][v] += a[m][steps] * b[steps][v]; a step is one 32-bit lane. Lines of b at `ahead` are
// prefetched, into the second level: the first-level miss buffers alone hold too little to cover
// memory's latency (1.45 x at decode).
template <class Number, int kVectors, int kRows>
TUTTI_INLINE void Dot(__m512i (&sum)[kRows][kVectors], const std::byte* a, size_t a_stride,
                      const std::byte* b, size_t b_stride, int32_t steps, ptrdiff_t ahead) {
#pragma GCC unroll 4
  for (int32_t i = 0; i < steps; ++i) {
    __m512i line[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* at = b + v * Number::kLineBytes;
      line[v] = Number::Load(at);
      if (v * Number::kLineBytes % 64 == 0)
        _mm_prefetch(reinterpret_cast<const char*>(at + ahead), _MM_HINT_T1);
    }
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const __m512i x = _mm512_set1_epi32(
          *reinterpret_cast<const int32_t*>(a + static_cast<size_t>(m) * a_stride));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) Number::Multiply(sum[m][v], line[v], x);
    }
    a += 4;
    b += b_stride;
  }
}

template <int kRows>
struct Probabilities {
  alignas(64) std::byte p[kRows * kBlockTokens * 4];  // [row][32] int16 or float
  float keep[kRows];                                  // factor of what was summed before
  float unit[kRows];                                  // quantised: what one step of p * v is worth
  bool raised = false;  // some row's maximum grew: not all of keep is 1
};

// Adds the values of keys [begin, end), each to the rows that see it. Floats only: in integers,
// nothing times 0 is 0 whatever it is.
template <int kVectors, int kRows>
TUTTI_INLINE void AddSeen(__m512i (&sum)[kRows][kVectors], const std::byte* p, const std::byte* v,
                          size_t v_stride, const uint32_t* seen, int32_t begin, int32_t end) {
  for (int32_t t = begin; t < end; ++t) {
    const std::byte* line = v + static_cast<size_t>(t) * v_stride;
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      if ((seen[m] >> t & 1) != 0) {
        const __m512i x =
            _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(p + (m * kBlockTokens + t) * 4));
#pragma GCC unroll 4
        for (int u = 0; u < kVectors; ++u)
          Float32::Multiply(sum[m][u], Float32::Load(line + u * Float32::kLineBytes), x);
      }
    }
  }
}

// Values of kPart rows from kFirst on: columns [16*column, 16*(column+kVectors)) of their sums. o:
// of row kFirst.
template <class Number, int kVectors, int kFirst, int kPart, int kRows>
TUTTI_INLINE void AddValuesPart(const Probabilities<kRows>& p, const Tile& tile,
                                const TileKeys<kRows>& keys, size_t dims, float* o, int32_t column,
                                ptrdiff_t ahead) {
  constexpr size_t kStride = kBlockTokens * 4 / Number::kPerLane;
  constexpr int32_t kAllSteps = kBlockTokens / Number::kPerLane;
  __m512i sum[kPart][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kPart; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[m][v] = Number::kQuantised
                      ? _mm512_setzero_si512()
                      : _mm512_load_si512(o + static_cast<size_t>(m) * dims + (column + v) * 16);
    }
  }
  if (!Number::kQuantised && p.raised) {
#pragma GCC unroll 8
    for (int m = 0; m < kPart; ++m) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[m][v] = _mm512_castps_si512(
            _mm512_mul_ps(_mm512_castsi512_ps(sum[m][v]), _mm512_set1_ps(p.keep[kFirst + m])));
      }
    }
  }
  const std::byte* lines = tile.v + column * Number::kLineBytes;
  const size_t step_bytes = dims / 16 * Number::kLineBytes;
  const std::byte* weights = p.p + kFirst * kStride;
  // In integers, all keys up to the last that any row sees; the hidden ones have weight 0.
  const int32_t begin = Number::kQuantised ? 0 : keys.all_begin;
  const int32_t end = Number::kQuantised ? keys.end : keys.all_end;
  const int32_t steps = (end - begin + Number::kPerLane - 1) / Number::kPerLane;
  if (steps == kAllSteps) {
    Dot<Number, kVectors, kPart>(sum, weights, kStride, lines, step_bytes, kAllSteps, ahead);
  } else if constexpr (Number::kQuantised) {
    Dot<Number, kVectors, kPart>(sum, weights, kStride, lines, step_bytes, steps, ahead);
  } else {
    const uint32_t* seen = keys.seen + kFirst;
    AddSeen<kVectors, kPart>(sum, weights, lines, step_bytes, seen, keys.begin, begin);
    Dot<Number, kVectors, kPart>(sum, weights + begin * 4, kStride,
                                 lines + static_cast<size_t>(begin) * step_bytes, step_bytes, steps,
                                 ahead);
    AddSeen<kVectors, kPart>(sum, weights, lines, step_bytes, seen, end, keys.end);
  }
#pragma GCC unroll 8
  for (int m = 0; m < kPart; ++m) {
    const __m512 unit = _mm512_set1_ps(p.unit[kFirst + m]);
    const __m512 keep = _mm512_set1_ps(p.keep[kFirst + m]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* to = o + static_cast<size_t>(m) * dims + (column + v) * 16;
      if (Number::kQuantised) {
        const __m512 before = _mm512_mul_ps(_mm512_load_ps(to), keep);
        _mm512_store_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][v]), unit, before));
      } else {
        _mm512_store_si512(to, sum[m][v]);
      }
    }
  }
}

// All rows: more than 4 x 4 accumulators at once and GCC 12 spills.
template <class Number, int kVectors, int kRows>
TUTTI_INLINE void AddValues(const Probabilities<kRows>& p, const Tile& tile,
                            const TileKeys<kRows>& keys, size_t dims, float* o, int32_t column,
                            ptrdiff_t ahead) {
  if constexpr (kRows <= 4) {
    AddValuesPart<Number, kVectors, 0, kRows>(p, tile, keys, dims, o, column, ahead);
  } else {
    AddValuesPart<Number, kVectors, 0, 3>(p, tile, keys, dims, o, column, ahead);
    AddValuesPart<Number, kVectors, 3, kRows - 3>(p, tile, keys, dims, o + 3 * dims, column, 0);
  }
}

// kRows rows against one tile of 32 keys. kHeadDim 0: known at run time only.
template <class Number, int kHeadDim, int kRows>
__attribute__((noinline)) void RowsByTile(const RowStates& states, int32_t row, const Tile& tile,
                                          int32_t base, ptrdiff_t ahead) {
  const int32_t head_dim = kHeadDim > 0 ? kHeadDim : states.head_dim;
  const size_t q_bytes = static_cast<size_t>(head_dim) * 4 / Number::kPerLane;

  __m512i s[kRows][2];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) s[m][0] = s[m][1] = _mm512_setzero_si512();
  Dot<Number, 2, kRows>(s, states.q + static_cast<size_t>(row) * q_bytes, q_bytes, tile.k,
                        2 * Number::kLineBytes, head_dim / Number::kPerLane, ahead);

  const TileKeys<kRows> keys = KeysOfTile<kRows>(states, row, base);
  Probabilities<kRows> p;
  const TileScales scales = LoadScales<Number::kQuantised, Number::kProbabilityTop>(tile);
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
    __m512i e[2];
    p.raised |= SoftmaxOfRow<Number::kQuantised, Number::kProbabilityTop>(
        states, row + m, keys.seen[m], tile, scales, s[m], e, &p.keep[m], &p.unit[m]);
    std::byte* to = p.p + static_cast<size_t>(m) * (kBlockTokens * 4 / Number::kPerLane);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      if (Number::kQuantised) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + v * 32), _mm512_cvtepi32_epi16(e[v]));
      } else {
        _mm512_store_si512(to + v * 64, e[v]);
      }
    }
  }

  const size_t dims = static_cast<size_t>(head_dim);
  float* o = states.o + static_cast<size_t>(row) * dims;
  int32_t column = 0;
  for (; column + 4 <= head_dim / 16; column += 4)
    AddValues<Number, 4>(p, tile, keys, dims, o, column, ahead);
  if (kHeadDim == 0) {
    switch (head_dim / 16 - column) {
      case 3:
        AddValues<Number, 3>(p, tile, keys, dims, o, column, ahead);
        break;
      case 2:
        AddValues<Number, 2>(p, tile, keys, dims, o, column, ahead);
        break;
      case 1:
        AddValues<Number, 1>(p, tile, keys, dims, o, column, ahead);
        break;
      default:
        break;
    }
  }
}

template <class Number, int kHeadDim>
struct TileForm : StatesByRow {
  static constexpr int kTileRows = 6;
  struct Block : Tile {
    const std::byte* head;
  };

  static size_t QueryBytes(int32_t head_dim) {
    return static_cast<size_t>(head_dim) * 4 / Number::kPerLane;
  }
  static size_t BlockBytes(int32_t /*head_dim*/) { return 0; }

  static void PrepareQuery(const float* q, int32_t head_dim, float scale, std::byte* dst,
                           float* q_scale) {
    if (!Number::kQuantised) {
      const __m512 factor = _mm512_set1_ps(scale);
      float* out = reinterpret_cast<float*>(dst);
      for (int32_t d = 0; d < head_dim; d += 16) {
        _mm512_store_ps(out + d, _mm512_mul_ps(_mm512_loadu_ps(q + d), factor));
      }
      *q_scale = 1.0f;
      return;
    }
    *q_scale = QuantizeQuery(q, head_dim, scale, static_cast<float>(Number::QueryTop(head_dim)),
                             reinterpret_cast<int16_t*>(dst));
  }

  static TUTTI_INLINE Block LoadBlock(const std::byte* head, const KvLayout& layout, int32_t keys,
                                      std::byte*) {
    Block block;
    block.k = head;
    block.v = head + layout.v_offset;
    block.k_scale = reinterpret_cast<const float*>(head + layout.k_scale_offset);
    block.v_scale = reinterpret_cast<const float*>(head + layout.v_scale_offset);
    block.keys = keys;
    block.head = head;
    return block;
  }

  static TUTTI_INLINE void Rows(const RowStates& states, int32_t row, int32_t count,
                                const Block& block, int32_t base, bool /*masked*/,
                                const std::byte* next) {
    const ptrdiff_t ahead = next - block.head;
    switch (count) {
      case 1:
        return RowsByTile<Number, kHeadDim, 1>(states, row, block, base, ahead);
      case 2:
        return RowsByTile<Number, kHeadDim, 2>(states, row, block, base, ahead);
      case 3:
        return RowsByTile<Number, kHeadDim, 3>(states, row, block, base, ahead);
      case 4:
        return RowsByTile<Number, kHeadDim, 4>(states, row, block, base, ahead);
      case 5:
        return RowsByTile<Number, kHeadDim, 5>(states, row, block, base, ahead);
      default:
        return RowsByTile<Number, kHeadDim, 6>(states, row, block, base, ahead);
    }
  }

  static float Exp2(float x) { return _mm512_cvtss_f32(Exp2Long(_mm512_set1_ps(x))); }
};

size_t ScratchBytes(const AttentionShape& shape) {
  return FormScratchBytes<TileForm<Float32, 0>>(shape.head_dim);  // the larger of the two
}

template <class Number>
void RunItemOf(const AttentionArgs& args, const AttentionWork& work, int32_t index,
               std::byte* scratch) {
  switch (args.shape.head_dim) {
    case 64:
      return RunItemForm<TileForm<Number, 64>>(args, work, index, scratch);
    case 128:
      return RunItemForm<TileForm<Number, 128>>(args, work, index, scratch);
    default:
      return RunItemForm<TileForm<Number, 0>>(args, work, index, scratch);
  }
}

void RunItem(const AttentionArgs& args, const AttentionWork& work, int32_t index,
             std::byte* scratch) {
  switch (args.layout.format) {
    case KvFormat::kF32:
      return RunItemOf<Float32>(args, work, index, scratch);
    case KvFormat::kI8:
      return RunItemOf<Int8>(args, work, index, scratch);
    default:
      return RunItemOf<Int16>(args, work, index, scratch);
  }
}

}  // namespace

const AttentionKernels& Avx512VnniAttentionKernels() {
  static constexpr AttentionKernels kKernels = {"avx512vnni", KvFormat::kI16,
                                                avx512vnni::RopeAppend, ScratchBytes, RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
