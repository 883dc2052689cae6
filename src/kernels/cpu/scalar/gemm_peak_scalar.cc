#define TUTTI_PEAK_ISA TUTTI_PEAK_SCALAR
#include "kernels/cpu/gemm_peak.inc"
