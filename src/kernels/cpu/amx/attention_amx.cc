// Attention with AMX: items of many rows with the int8 cache in the tile unit, everything else with
// AVX-512, and the same bits from both.
#include <immintrin.h>

#include "kernels/attention.h"
#include "kernels/cpu/amx/tile_unit.h"
#include "kernels/cpu/avx512vnni/attention_avx512.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/amx/attention_unit.inc"

}  // namespace

const AttentionKernels& AmxAttentionKernels() {
  static constexpr AttentionKernels kKernels = {"amx", KvFormat::kI16, avx512vnni::RopeAppend,
                                                ScratchBytes, RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
