// Row operations with AVX-512.
#include "kernels/cpu/avx512vnni/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/rows.h"

namespace tutti::kernels {
namespace {

inline __mmask16 FirstLanes(int32_t count) { return static_cast<__mmask16>((1u << count) - 1); }
inline Vec16 LoadFirst(const float* p, int32_t count, float fill) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), FirstLanes(count), p);
}
inline void StoreFirst(float* p, Vec16 v, int32_t count) {
  _mm512_mask_storeu_ps(p, FirstLanes(count), v);
}
inline float MaxLanes(Vec16 v) { return _mm512_reduce_max_ps(v); }
inline Vec16 ZeroWhereLess(Vec16 x, Vec16 limit, Vec16 y) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), y);
}
inline Vec16 WhereGreater(Vec16 x, Vec16 limit, Vec16 y, Vec16 z) {
  return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, limit, _CMP_GT_OQ), z);
}
inline uint32_t EqualLanes(Vec16 v, float x) {
  return _mm512_cmp_ps_mask(v, _mm512_set1_ps(x), _CMP_EQ_OQ);
}
inline Vec16 WidenBfloat16(const uint16_t* p) {
  const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16));
}
constexpr int kLowRankSums = 16;
#include "kernels/cpu/rows_vector.inc"
// Behind it, because it uses its functions.
#include "kernels/cpu/low_rank_vector.inc"

}  // namespace

const RowKernels& Avx512VnniRowKernels() {
  static constexpr RowKernels kKernels = {"avx512vnni", RmsNorm, LayerNorm, AddRow,
                                          MultiplyRow,  SiluMul, ArgmaxRow, LowRank};
  return kKernels;
}

}  // namespace tutti::kernels
