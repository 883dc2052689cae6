#define TUTTI_PEAK_ISA TUTTI_PEAK_AVXVNNI
#include "kernels/cpu/gemm_peak.inc"
