// Register-only loops of each instruction set's best multiply-add: the ceilings that measured rates
// are compared with.
#pragma once

#include <cstdint>

namespace tutti::kernels {

// All run `rounds` rounds on the calling thread and return the operations done (a multiply and an
// add are two).
struct PeakKernels {
  double (*int8)(int64_t rounds);
  double (*float32)(int64_t rounds);
  double (*bf16)(int64_t rounds);  // null where there is no such instruction
};

const PeakKernels& ScalarPeakKernels();
const PeakKernels& Avx2PeakKernels();
const PeakKernels& AvxVnniPeakKernels();
const PeakKernels& Avx512VnniPeakKernels();
const PeakKernels& NeonDotPeakKernels();
const PeakKernels& I8mmPeakKernels();

// The loop for AVX512_BF16, in addition to those of AVX-512 VNNI.
double Avx512Bf16Peak(int64_t rounds);
// The loops for AMX: a round is four products of whole tiles.
double AmxInt8Peak(int64_t rounds);
double AmxBf16Peak(int64_t rounds);

}  // namespace tutti::kernels
