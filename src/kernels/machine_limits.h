// Measures this machine's peak rates, which `tutti doctor` prints and benchmarks divide by.
//
// Measured, not looked up: short bursts on all given threads at once, best of several, because
// shared hosts change speed from second to second. Thread: call from one thread while the machine
// is otherwise idle. Errors: if the buffer for the read test cannot be had, its rate is 0
// (unknown).
#pragma once

#include <cstddef>

#include "kernels/isa.h"

namespace tutti::kernels {

struct MachineLimits {
  Isa isa;                   // whose instructions the peaks are of
  int threads;               // number of threads that measured at once
  double read_bytes_per_s;   // streaming reads of memory far larger than the caches
  double int8_ops_per_s;     // int8 multiply-adds in registers; one is two operations
  double float32_ops_per_s;  // float multiply-adds in registers
  double bf16_ops_per_s;     // the same of bfloat16 in pairs; 0: it has no such instruction
};

// Takes about 150 ms and 128 MiB. `isa` must be among DetectIsas(); threads >= 1.
MachineLimits MeasureMachineLimits(Isa isa, int threads);

// Time from an arbitrary moment on, for rates.
double MonotonicSeconds();

}  // namespace tutti::kernels
