#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cstdint>

namespace tutti::kernels {
namespace {

constexpr struct {
  Isa isa;
  std::string_view name;
} kNames[] = {{Isa::kScalar, "scalar"},         {Isa::kAvx2, "avx2"},
              {Isa::kAvxVnni, "avxvnni"},       {Isa::kAvx512Vnni, "avx512vnni"},
              {Isa::kAvx512Bf16, "avx512bf16"}, {Isa::kAmx, "amx"},
              {Isa::kNeonDot, "neondot"},       {Isa::kI8mm, "i8mm"}};

#if defined(__x86_64__)

// The register state that the operating system saves (XCR0); 0 if it does not report it.
uint64_t EnabledState() {
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & bit_OSXSAVE) == 0) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

struct Features {
  bool avx2 = false;
  bool avx_vnni = false;
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx = false;
};

// Source: Intel SDM volume 2, CPUID leaves 1 and 7; XCR0 bits 1-2 (xmm, ymm), 5-7 (masks, zmm) and
// 17-18 (tiles).
Features DetectFeatures() {
  Features out;
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return out;
  const bool fma_f16c = (ecx & bit_FMA) != 0 && (ecx & bit_F16C) != 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return out;
  const uint64_t state = EnabledState();
  const bool ymm = (state & 0x06) == 0x06;
  const bool zmm = (state & 0xe6) == 0xe6;
  out.avx2 = ymm && fma_f16c && (ebx & bit_AVX2) != 0;
  out.avx512_vnni = out.avx2 && zmm && (ebx & bit_AVX512F) != 0 && (ebx & bit_AVX512BW) != 0 &&
                    (ebx & bit_AVX512DQ) != 0 && (ebx & bit_AVX512VL) != 0 &&
                    (ecx & bit_AVX512VNNI) != 0;
  // Leaf 7.0, edx: bfloat16 in tiles, AVX512-FP16, tiles, int8 in them. A hypervisor may hide one
  // alone.
  constexpr uint32_t kAmxBits = 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25;
  const bool amx = (edx & kAmxBits) == kAmxBits && (state & 0x60000) == 0x60000;
  const bool has_leaf_7_1 = eax >= 1;
  constexpr uint32_t kAvxVnniBit = 1u << 4;  // leaf 7.1, eax
  constexpr uint32_t kAvx512Bf16Bit = 1u << 5;
  if (!has_leaf_7_1 || !__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) return out;
  out.avx_vnni = out.avx2 && (eax & kAvxVnniBit) != 0;
  out.avx512_bf16 = out.avx512_vnni && (eax & kAvx512Bf16Bit) != 0;
  out.amx = out.avx512_bf16 && amx;
  return out;
}

// Whether threads of this process may use tiles from here on: 8 KiB of state, which Linux saves for
// those that asked. Source: Linux, Documentation/arch/x86/xstate.rst.
[[maybe_unused]] bool RequestTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

void AddIsas(std::vector<Isa>& out) {
  const Features features = DetectFeatures();
#ifndef TUTTI_WITHOUT_AVX2
  if (features.avx2) out.push_back(Isa::kAvx2);
#endif
#ifndef TUTTI_WITHOUT_AVXVNNI
  if (features.avx_vnni) out.push_back(Isa::kAvxVnni);
#endif
#ifndef TUTTI_WITHOUT_AVX512VNNI
  if (features.avx512_vnni) out.push_back(Isa::kAvx512Vnni);
  if (features.avx512_bf16) out.push_back(Isa::kAvx512Bf16);
#endif
#ifndef TUTTI_WITHOUT_AMX
  if (features.amx && RequestTiles()) out.push_back(Isa::kAmx);
#endif
}

bool IsAmd() {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == signature_AMD_ebx &&
         ecx == signature_AMD_ecx && edx == signature_AMD_edx;
}

#else

// Source: Linux, Documentation/arch/arm64/elf_hwcaps.rst.
void AddIsas([[maybe_unused]] std::vector<Isa>& out) {
#if defined(__aarch64__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0) return;
  out.push_back(Isa::kNeonDot);
  if ((getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0) out.push_back(Isa::kI8mm);
#endif
}

bool IsAmd() { return false; }

#endif

}  // namespace

std::string_view IsaName(Isa isa) {
  for (const auto& entry : kNames) {
    if (entry.isa == isa) return entry.name;
  }
  return "?";
}

std::optional<Isa> IsaFromName(std::string_view name) {
  for (const auto& entry : kNames) {
    if (entry.name == name) return entry.isa;
  }
  return std::nullopt;
}

bool IsAmdProcessor() {
  static const bool amd = IsAmd();
  return amd;
}

std::vector<Isa> DetectIsas() {
  std::vector<Isa> out = {Isa::kScalar};
  AddIsas(out);
  return out;
}

}  // namespace tutti::kernels
