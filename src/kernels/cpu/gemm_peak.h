// Register-only loops of each instruction set's best multiply-add: the ceilings that measured rates
// are compared with.
#pragma once

#include <cstdint>

namespace tutti::kernels {

// Both run `rounds` rounds on the calling thread and return the operations done (a multiply and an
// add are two).
struct PeakKernels {
  double (*int8)(int64_t rounds);
  double (*float32)(int64_t rounds);
};

const PeakKernels& ScalarPeakKernels();
const PeakKernels& Avx2PeakKernels();
const PeakKernels& AvxVnniPeakKernels();
const PeakKernels& Avx512VnniPeakKernels();
const PeakKernels& NeonDotPeakKernels();
const PeakKernels& I8mmPeakKernels();

}  // namespace tutti::kernels
