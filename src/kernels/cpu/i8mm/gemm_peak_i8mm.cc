#define TUTTI_PEAK_ISA TUTTI_PEAK_I8MM
#include "kernels/cpu/gemm_peak.inc"
