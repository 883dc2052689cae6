// Recurrences with AVX-512.
#include "kernels/cpu/avx512vnni/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/recurrent.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/recurrent_vector.inc"

}  // namespace

const RecurrentKernels& Avx512VnniRecurrentKernels() {
  static constexpr RecurrentKernels kKernels = {"avx512vnni", CausalConv, DeltaRule, StateSpace};
  return kKernels;
}

}  // namespace tutti::kernels
