// Recurrences with NEON.
#include "kernels/cpu/neon/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/recurrent.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/recurrent_vector.inc"

}  // namespace

const RecurrentKernels& NeonRecurrentKernels() {
  static constexpr RecurrentKernels kKernels = {"neon", CausalConv, DeltaRule, StateSpace};
  return kKernels;
}

}  // namespace tutti::kernels
