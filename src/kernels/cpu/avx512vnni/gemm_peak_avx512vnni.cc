#define TUTTI_PEAK_ISA TUTTI_PEAK_AVX512VNNI
#include "kernels/cpu/gemm_peak.inc"
