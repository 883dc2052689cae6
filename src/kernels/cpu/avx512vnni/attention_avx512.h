// Code that the AVX-512 attention files share: the int16 grid and the append function.
//
// Int16 form: a row x of head_dim values is stored as round(x / scale), scale = max|x| / top. Two
// such rows multiply in vpdpwssd, pairs of int16 into int32, exactly, because top is chosen so that
// no sum can overflow.
#pragma once

#include "kernels/attention.h"

namespace tutti::kernels::avx512vnni {

// Greatest magnitude of a quantised query or key, by head_dim / 16: floor(sqrt((2^31 - 1) /
// head_dim)).
constexpr int32_t kScoreTops[33] = {0,    11585, 8191, 6688, 5792, 5181, 4729, 4378, 4095,
                                    3861, 3663,  3493, 3344, 3213, 3096, 2991, 2896, 2809,
                                    2730, 2657,  2590, 2528, 2469, 2415, 2364, 2317, 2272,
                                    2229, 2189,  2151, 2115, 2080, 2047};
constexpr bool ScoreTopsFit() {
  for (int64_t i = 1; i <= kMaxHeadDim / 16; ++i) {
    if (kScoreTops[i] * int64_t{kScoreTops[i]} * 16 * i >= int64_t{1} << 31) return false;
  }
  return true;
}
static_assert(ScoreTopsFit());
// Greatest magnitude of a quantised value and of a probability: 8191 * 8192 * 32 < 2^31.
constexpr int32_t kValueTop = 8191;
// As above, for int8 keys and values, which are at most 127: 127 * 32767 * 512 < 2^31.
constexpr int32_t kInt8Top = 127;
constexpr int32_t kQueryTop8 = 32767;
constexpr int32_t kProbabilityTop8 = 32767;
// A row of zeros gets this for its maximum, so that its scale is not zero.
constexpr float kTiny = 1e-20f;

void RopeAppend(const RopeAppendArgs& args, int32_t row_begin, int32_t row_end);

}  // namespace tutti::kernels::avx512vnni
