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

}  // namespace

const KernelTable& KernelsFor(Isa isa) {
  // Each table is built when first asked for, so that no function compiled for an instruction set
  // runs without it.
  switch (isa) {
    case Isa::kScalar: {
      static const KernelTable table = {isa, ScalarGemmKernels(), ScalarAttentionKernels(),
                                        ScalarRowKernels(), ScalarSpanAttentionKernels()};
      return table;
    }
#if defined(__x86_64__)
    case Isa::kAvx2: {
      static const KernelTable table = {isa, Avx2GemmKernels(), Avx2AttentionKernels(),
                                        Avx2RowKernels(), Avx2SpanAttentionKernels()};
      return table;
    }
    case Isa::kAvxVnni: {
      static const KernelTable table = {isa, AvxVnniGemmKernels(), Avx2AttentionKernels(),
                                        Avx2RowKernels(), Avx2SpanAttentionKernels()};
      return table;
    }
    case Isa::kAvx512Vnni: {
      static const KernelTable table = {isa, Avx512VnniGemmKernels(), Avx512VnniAttentionKernels(),
                                        Avx512VnniRowKernels(), Avx512VnniSpanAttentionKernels()};
      return table;
    }
    case Isa::kAvx512Bf16: {
      static const KernelTable table = {isa, Avx512Bf16GemmKernels(), Avx512VnniAttentionKernels(),
                                        Avx512VnniRowKernels(), Avx512VnniSpanAttentionKernels()};
      return table;
    }
#elif defined(__aarch64__)
    case Isa::kNeonDot: {
      static const KernelTable table = {isa, NeonDotGemmKernels(), NeonAttentionKernels(),
                                        NeonRowKernels(), NeonSpanAttentionKernels()};
      return table;
    }
    case Isa::kI8mm: {
      static const KernelTable table = {isa, I8mmGemmKernels(), NeonAttentionKernels(),
                                        NeonRowKernels(), NeonSpanAttentionKernels()};
      return table;
    }
#endif
    default:  // of another architecture
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
