// Instruction sets: their names and which of them this machine can run. Pure; any thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace tutti::kernels {

// Instruction sets that Tutti has kernels for; those of one architecture in ascending order of
// preference.
enum class Isa {
  kScalar,      // any machine: the oracle
  kAvx2,        // AVX2, FMA, F16C
  kAvxVnni,     // the above and AVX-VNNI (256-bit, VEX): desktop parts without AVX-512
  kAvx512Vnni,  // AVX-512 F, BW, DQ, VL, VNNI
  kAvx512Bf16,  // the above and AVX512_BF16
  kAmx,         // the above, AVX512-FP16 and AMX with int8 and bfloat16
  kNeonDot,     // 64-bit Arm: NEON with int8 dot products (Armv8.2)
  kI8mm,        // the above and int8 matrix products (Armv8.6)
};
// "scalar", "avx2", "avxvnni", "avx512vnni", "avx512bf16", "amx", "neondot", "i8mm".
std::string_view IsaName(Isa isa);
std::optional<Isa> IsaFromName(std::string_view name);  // exact; the inverse of IsaName

// The instruction sets that this machine and its operating system can run and that were built
// (TUTTI_KERNELS), ascending; kScalar is always first. Asks Linux for the tiles' state for this
// process, as it must be before the first use.
std::vector<Isa> DetectIsas();

// Whether the processor is AMD's (measured: Zen 4) rather than Intel's (measured: Cascade Lake) or
// an Arm one (not measured).
// Kernels choose prefetching and thresholds by it, never arithmetic. Looked up once; cheap to call.
bool IsAmdProcessor();

}  // namespace tutti::kernels
