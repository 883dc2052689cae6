#include "kernels/kernels.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace tutti::kernels {
namespace {

std::string SupportedNames() {
  std::string out;
  for (Isa isa : DetectIsas()) {
    if (!out.empty()) out += ", ";
    out += IsaName(isa);
  }
  return out;
}

// Each table is built when first asked for, so that no function compiled for an instruction set
// runs without it.
template <auto kGemm, auto kAttention, auto kRows, auto kSpanAttention, auto kRecurrent>
const KernelTable& TableOf(Isa isa) {
  static const KernelTable table = {isa,     kGemm(),          kAttention(),
                                    kRows(), kSpanAttention(), kRecurrent()};
  return table;
}

}  // namespace

const KernelTable& KernelsFor(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return TableOf<ScalarGemmKernels, ScalarAttentionKernels, ScalarRowKernels,
                     ScalarSpanAttentionKernels, ScalarRecurrentKernels>(isa);
#if defined(__x86_64__)
#ifndef TUTTI_WITHOUT_AVX2
    case Isa::kAvx2:
      return TableOf<Avx2GemmKernels, Avx2AttentionKernels, Avx2RowKernels,
                     Avx2SpanAttentionKernels, Avx2RecurrentKernels>(isa);
#endif
#ifndef TUTTI_WITHOUT_AVXVNNI
    case Isa::kAvxVnni:
      return TableOf<AvxVnniGemmKernels, Avx2AttentionKernels, Avx2RowKernels,
                     Avx2SpanAttentionKernels, Avx2RecurrentKernels>(isa);
#endif
#ifndef TUTTI_WITHOUT_AVX512VNNI
    case Isa::kAvx512Vnni:
      return TableOf<Avx512VnniGemmKernels, Avx512VnniAttentionKernels, Avx512VnniRowKernels,
                     Avx512VnniSpanAttentionKernels, Avx512VnniRecurrentKernels>(isa);
    case Isa::kAvx512Bf16:
      return TableOf<Avx512Bf16GemmKernels, Avx512VnniAttentionKernels, Avx512VnniRowKernels,
                     Avx512VnniSpanAttentionKernels, Avx512VnniRecurrentKernels>(isa);
#endif
#ifndef TUTTI_WITHOUT_AMX
    case Isa::kAmx:
      return TableOf<AmxGemmKernels, AmxAttentionKernels, Avx512VnniRowKernels,
                     Avx512VnniSpanAttentionKernels, Avx512VnniRecurrentKernels>(isa);
#endif
#elif defined(__aarch64__)
    case Isa::kNeonDot:
      return TableOf<NeonDotGemmKernels, NeonAttentionKernels, NeonRowKernels,
                     NeonSpanAttentionKernels, NeonRecurrentKernels>(isa);
    case Isa::kI8mm:
      return TableOf<I8mmGemmKernels, NeonAttentionKernels, NeonRowKernels,
                     NeonSpanAttentionKernels, NeonRecurrentKernels>(isa);
#endif
    default:  // another architecture, or not in this build
      break;
  }
  CHECK(false) << "instruction set " << static_cast<int>(isa);
  __builtin_unreachable();
}

Result<const KernelTable*> SelectKernels(std::optional<std::string> forced) {
  const std::vector<Isa> supported = DetectIsas();
  if (!forced.has_value()) return &KernelsFor(supported.back());
  const std::optional<Isa> isa = IsaFromName(*forced);
  if (!isa.has_value() || std::find(supported.begin(), supported.end(), *isa) == supported.end()) {
    const std::string shown = forced->substr(0, 64);
    return InvalidArgument("invalid_value",
                           "--isa \"" + shown + "\" is " +
                               (isa.has_value() ? "not supported by this machine" : "unknown") +
                               "; it runs " + SupportedNames())
        .WithParam("isa");
  }
  return &KernelsFor(*isa);
}

}  // namespace tutti::kernels
