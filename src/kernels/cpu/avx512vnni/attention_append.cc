// RoPE and KV append with AVX-512.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/attention_avx512.h"

namespace tutti::kernels::avx512vnni {
namespace {

// (a, b) := (a cos - b sin, a sin + b cos) with the second product rounded, then one fused
// multiply-add.
void RotateAdjacent(const float* cos_sin, int32_t half, float* x) {
  const __m512i spread = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const __m512 sign =
      _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000));  // minus for the even lanes
  for (int32_t i = 0; i < half; i += 8) {
    const int32_t pairs = half - i < 8 ? half - i : 8;
    const __mmask16 lanes = static_cast<__mmask16>((1u << (2 * pairs)) - 1);
    const __mmask16 table = static_cast<__mmask16>((1u << pairs) - 1);
    const __m512 c = _mm512_permutexvar_ps(spread, _mm512_maskz_loadu_ps(table, cos_sin + i));
    const __m512 s =
        _mm512_permutexvar_ps(spread, _mm512_maskz_loadu_ps(table, cos_sin + half + i));
    const __m512 a = _mm512_maskz_loadu_ps(lanes, x + 2 * i);
    const __m512 swapped = _mm512_permute_ps(a, 0xB1);
    const __m512 turned = _mm512_mul_ps(swapped, _mm512_xor_ps(s, sign));
    _mm512_mask_storeu_ps(x + 2 * i, lanes, _mm512_fmadd_ps(a, c, turned));
  }
}

void RotateHalf(const float* cos_sin, int32_t half, float* x) {
  for (int32_t i = 0; i < half; i += 16) {
    const int32_t count = half - i < 16 ? half - i : 16;
    const __mmask16 lanes = static_cast<__mmask16>((1u << count) - 1);
    const __m512 c = _mm512_maskz_loadu_ps(lanes, cos_sin + i);
    const __m512 s = _mm512_maskz_loadu_ps(lanes, cos_sin + half + i);
    const __m512 a = _mm512_maskz_loadu_ps(lanes, x + i);
    const __m512 b = _mm512_maskz_loadu_ps(lanes, x + half + i);
    _mm512_mask_storeu_ps(x + i, lanes, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
    _mm512_mask_storeu_ps(x + half + i, lanes, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
  }
}

// dst[i] = round(x[i] * top / max|x|); returns the scale.
float Quantise(const float* x, int32_t head_dim, int32_t top, int16_t* dst) {
  __m512 greatest = _mm512_set1_ps(kTiny);
  for (int32_t d = 0; d < head_dim; d += 16) {
    greatest = _mm512_max_ps(greatest, _mm512_abs_ps(_mm512_loadu_ps(x + d)));
  }
  const float limit = static_cast<float>(top);
  const float amax = _mm512_reduce_max_ps(greatest);
  const __m512 inverse = _mm512_set1_ps(limit / amax);
  for (int32_t d = 0; d < head_dim; d += 16) {
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + d), inverse);
    _mm256_store_si256(reinterpret_cast<__m256i*>(dst + d),
                       _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(scaled)));
  }
  return amax / limit;
}

// One token: its half of every 32-bit lane of V. The masked store leaves the other half, which
// belongs to the adjacent token, alone: another worker may be writing it.
void AppendInt16(const KvLayout& layout, std::byte* head, int32_t slot, const float* k,
                 const float* v) {
  const int32_t head_dim = layout.head_dim;
  alignas(64) int16_t row[kMaxHeadDim];
  reinterpret_cast<float*>(head + layout.k_scale_offset)[slot] =
      Quantise(k, head_dim, kScoreTops[head_dim / 16], row);
  std::byte* to = head + slot * 4;
  for (int32_t d = 0; d < head_dim; d += 2, to += kBlockTokens * 4)
    __builtin_memcpy(to, row + d, 4);

  reinterpret_cast<float*>(head + layout.v_scale_offset)[slot] =
      Quantise(v, head_dim, kValueTop, row);
  to = head + layout.v_offset + static_cast<size_t>(slot / 2) * static_cast<size_t>(head_dim) * 4;
  const __mmask32 halves = slot % 2 == 0 ? 0x55555555u : 0xAAAAAAAAu;
  for (int32_t d = 0; d < head_dim; d += 16, to += 64) {
    __m512i lanes =
        _mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(row + d)));
    if (slot % 2 != 0) lanes = _mm512_slli_epi32(lanes, 16);
    _mm512_mask_storeu_epi16(to, halves, lanes);
  }
}

// Two tokens of one lane pair (slot even): the same bytes with half the stores. k and v of the
// second are `stride` floats after the first's.
void AppendInt16Pair(const KvLayout& layout, std::byte* head, int32_t slot, const float* k,
                     const float* v, size_t stride) {
  const int32_t head_dim = layout.head_dim;
  const int32_t top = kScoreTops[head_dim / 16];
  alignas(64) int16_t row[2][kMaxHeadDim];
  float* scale = reinterpret_cast<float*>(head + layout.k_scale_offset) + slot;
  scale[0] = Quantise(k, head_dim, top, row[0]);
  scale[1] = Quantise(k + stride, head_dim, top, row[1]);
  std::byte* to = head + slot * 4;
  for (int32_t d = 0; d < head_dim; d += 2, to += kBlockTokens * 4) {
    __builtin_memcpy(to, row[0] + d, 4);
    __builtin_memcpy(to + 4, row[1] + d, 4);
  }
  scale = reinterpret_cast<float*>(head + layout.v_scale_offset) + slot;
  scale[0] = Quantise(v, head_dim, kValueTop, row[0]);
  scale[1] = Quantise(v + stride, head_dim, kValueTop, row[1]);
  to = head + layout.v_offset + static_cast<size_t>(slot / 2) * static_cast<size_t>(head_dim) * 4;
  for (int32_t d = 0; d < head_dim; d += 16, to += 64) {
    const __m512i low =
        _mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(row[0] + d)));
    const __m512i high =
        _mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(row[1] + d)));
    _mm512_store_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

// One token of an 8-bit cache: in each pair in a lane of V it leaves the adjacent token's byte
// alone.
void AppendInt8(const KvLayout& layout, std::byte* head, int32_t slot, const float* k,
                const float* v) {
  const int32_t head_dim = layout.head_dim;
  alignas(64) int16_t row[kMaxHeadDim];
  reinterpret_cast<float*>(head + layout.k_scale_offset)[slot] =
      Quantise(k, head_dim, kInt8Top, row);
  std::byte* to = head + slot * 2;
  for (int32_t d = 0; d < head_dim; d += 2, to += kBlockTokens * 2) {
    to[0] = static_cast<std::byte>(row[d]);
    to[1] = static_cast<std::byte>(row[d + 1]);
  }
  reinterpret_cast<float*>(head + layout.v_scale_offset)[slot] =
      Quantise(v, head_dim, kInt8Top, row);
  to = head + layout.v_offset + static_cast<size_t>(slot / 2) * static_cast<size_t>(head_dim) * 2;
  const __mmask32 bytes = slot % 2 == 0 ? 0x55555555u : 0xAAAAAAAAu;
  for (int32_t d = 0; d < head_dim; d += 16, to += 32) {
    __m256i pairs = _mm256_load_si256(reinterpret_cast<const __m256i*>(row + d));
    if (slot % 2 != 0) pairs = _mm256_slli_epi16(pairs, 8);
    _mm256_mask_storeu_epi8(to, bytes, pairs);
  }
}

void AppendFloat(const KvLayout& layout, std::byte* head, int32_t slot, const float* k,
                 const float* v) {
  const int32_t head_dim = layout.head_dim;
  float* keys = reinterpret_cast<float*>(head) + slot;
  for (int32_t d = 0; d < head_dim; ++d) keys[d * kBlockTokens] = k[d];
  float* values = reinterpret_cast<float*>(head + layout.v_offset) + slot * head_dim;
  for (int32_t d = 0; d < head_dim; d += 16) _mm512_storeu_ps(values + d, _mm512_loadu_ps(v + d));
}

struct Lanes {
  static constexpr int kCount = 16;
  using Vector = __m512;
  static Vector Load(const float* x) { return _mm512_loadu_ps(x); }
  static void Store(float* x, Vector v) { _mm512_storeu_ps(x, v); }
  static Vector Times(Vector v, float factor) { return _mm512_mul_ps(v, _mm512_set1_ps(factor)); }
  static Vector Sum(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector Difference(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  // For each pair of SIMD lanes: their sum in the first, their difference in the second.
  static Vector Fold(Vector v, Vector partner, __mmask16 second) {
    return _mm512_mask_sub_ps(_mm512_add_ps(partner, v), second, partner, v);
  }
  static Vector Within(Vector v) {
    v = Fold(v, _mm512_permute_ps(v, 0xB1), 0xAAAA);
    v = Fold(v, _mm512_permute_ps(v, 0x4E), 0xCCCC);
    v = Fold(v, _mm512_shuffle_f32x4(v, v, 0xB1), 0xF0F0);
    return Fold(v, _mm512_shuffle_f32x4(v, v, 0x4E), 0xFF00);
  }
};

#include "kernels/cpu/attention_hadamard.inc"

}  // namespace

void RopeAppend(const RopeAppendArgs& args, int32_t row_begin, int32_t row_end) {
  const AttentionShape& shape = args.shape;
  const int32_t head_dim = shape.head_dim;
  if (shape.rope_mode != RopeMode::kNone) {
    const auto rotate = shape.rope_mode == RopeMode::kAdjacent ? RotateAdjacent : RotateHalf;
    for (int32_t r = row_begin; r < row_end; ++r) {
      float* q = args.qkv + static_cast<size_t>(r) * args.stride;
      const float* cos_sin = args.cos_sin + static_cast<size_t>(args.rows[r].position) *
                                                static_cast<size_t>(shape.rope_dims);
      for (int32_t h = 0; h < shape.heads + shape.kv_heads; ++h)
        rotate(cos_sin, shape.rope_dims / 2, q + h * head_dim);
    }
  }
  if (args.layout.format == KvFormat::kI8) {
    for (int32_t r = row_begin; r < row_end; ++r)
      HadamardRow(shape, args.qkv + static_cast<size_t>(r) * args.stride);
  }
  for (int32_t r = row_begin; r < row_end; ++r) {
    const RowPlace place = args.rows[r];
    const float* k = args.qkv + static_cast<size_t>(r) * args.stride + shape.heads * head_dim;
    const float* v = k + shape.kv_heads * head_dim;
    const int32_t slot = place.position % kBlockTokens;
    std::byte* head = args.kv.Head(place.block, 0);
    const bool pair = args.layout.format == KvFormat::kI16 && slot % 2 == 0 && r + 1 < row_end &&
                      args.rows[r + 1].block == place.block &&
                      args.rows[r + 1].position == place.position + 1;
    for (int32_t h = 0; h < shape.kv_heads; ++h, head += args.kv.head_stride) {
      if (args.layout.format == KvFormat::kF32) {
        AppendFloat(args.layout, head, slot, k + h * head_dim, v + h * head_dim);
      } else if (args.layout.format == KvFormat::kI8) {
        AppendInt8(args.layout, head, slot, k + h * head_dim, v + h * head_dim);
      } else if (pair) {
        AppendInt16Pair(args.layout, head, slot, k + h * head_dim, v + h * head_dim, args.stride);
      } else {
        AppendInt16(args.layout, head, slot, k + h * head_dim, v + h * head_dim);
      }
    }
    if (pair) ++r;
  }
}

}  // namespace tutti::kernels::avx512vnni
