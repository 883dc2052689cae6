// The attention of AMX over a tile unit in plain C++, for attention_amx_test.cc: machines with
// AVX-512 VNNI run it. Nothing else is in here, because this file is compiled for that set.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/attention_avx512.h"
#include "kernels/testing/tile_unit_emulated.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/amx/attention_unit.inc"

}  // namespace

const AttentionKernels& AmxEmulatedAttentionKernelsForTest() {
  static constexpr AttentionKernels kKernels = {"amx-emulated", KvFormat::kI16,
                                                avx512vnni::RopeAppend, ScratchBytes, RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
