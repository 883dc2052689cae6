#define TUTTI_PEAK_ISA TUTTI_PEAK_AVX512BF16
#include "kernels/cpu/gemm_peak.inc"
