// Recurrences with AVX2.
#include "kernels/cpu/avx2/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/recurrent.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/recurrent_vector.inc"

}  // namespace

const RecurrentKernels& Avx2RecurrentKernels() {
  static constexpr RecurrentKernels kKernels = {"avx2", CausalConv, DeltaRule, StateSpace};
  return kKernels;
}

}  // namespace tutti::kernels
