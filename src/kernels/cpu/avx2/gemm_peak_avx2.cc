#define TUTTI_PEAK_ISA TUTTI_PEAK_AVX2
#include "kernels/cpu/gemm_peak.inc"
