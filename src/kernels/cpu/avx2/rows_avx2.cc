// Row operations with AVX2.
#include "kernels/cpu/avx2/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/rows.h"

namespace tutti::kernels {
namespace {

inline Vec16 LoadFirst(const float* p, int32_t count, float fill) {
  alignas(32) float values[16];
  for (int32_t i = 0; i < 16; ++i) values[i] = i < count ? p[i] : fill;
  return Load16(values);
}
inline void StoreFirst(float* p, Vec16 v, int32_t count) {
  alignas(32) float values[16];
  Store16(values, v);
  for (int32_t i = 0; i < count; ++i) p[i] = values[i];
}
inline float MaxLanes(Vec16 v) {
  const __m256 eight = _mm256_max_ps(v.low, v.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
inline Vec16 ZeroWhereLess(Vec16 x, Vec16 limit, Vec16 y) {
  return {_mm256_andnot_ps(_mm256_cmp_ps(x.low, limit.low, _CMP_LT_OQ), y.low),
          _mm256_andnot_ps(_mm256_cmp_ps(x.high, limit.high, _CMP_LT_OQ), y.high)};
}
inline Vec16 WhereGreater(Vec16 x, Vec16 limit, Vec16 y, Vec16 z) {
  return {_mm256_blendv_ps(y.low, z.low, _mm256_cmp_ps(x.low, limit.low, _CMP_GT_OQ)),
          _mm256_blendv_ps(y.high, z.high, _mm256_cmp_ps(x.high, limit.high, _CMP_GT_OQ))};
}
inline uint32_t EqualLanes(Vec16 v, float x) {
  const __m256 all = _mm256_set1_ps(x);
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v.low, all, _CMP_EQ_OQ)) |
                               _mm256_movemask_ps(_mm256_cmp_ps(v.high, all, _CMP_EQ_OQ)) << 8);
}
inline Vec16 WidenBfloat16(const uint16_t* p) {
  const auto widen = [](const uint16_t* eight) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(eight));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(values), 16));
  };
  return {widen(p), widen(p + 8)};
}
constexpr int kLowRankSums = 6;
#include "kernels/cpu/rows_vector.inc"
// Behind it, because it uses its functions.
#include "kernels/cpu/low_rank_vector.inc"

}  // namespace

const RowKernels& Avx2RowKernels() {
  static constexpr RowKernels kKernels = {"avx2",      RmsNorm, LayerNorm, AddRow,
                                          MultiplyRow, SiluMul, ArgmaxRow, LowRank};
  return kKernels;
}

}  // namespace tutti::kernels
