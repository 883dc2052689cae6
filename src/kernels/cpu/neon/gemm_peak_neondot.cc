#define TUTTI_PEAK_ISA TUTTI_PEAK_NEONDOT
#include "kernels/cpu/gemm_peak.inc"
