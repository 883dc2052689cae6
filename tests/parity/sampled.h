// Which cases of a test run on which instruction set.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "kernels/isa.h"

namespace tutti::parity {

// Only the kernels differ between instruction sets, and they have their own tests. So the machine's
// best set runs every case, and each other set runs one in three; with TUTTI_TEST_FULL (`make
// soak`) every set runs all.
inline bool RunsOn(kernels::Isa isa, size_t number_of_case) {
  static const bool full = std::getenv("TUTTI_TEST_FULL") != nullptr;
  static const kernels::Isa best = kernels::DetectIsas().back();
  return full || isa == best || number_of_case % 3 == static_cast<size_t>(isa) % 3;
}

// Those of `cases` that run on `isa`.
template <typename Case>
std::vector<Case> CasesOn(kernels::Isa isa, const std::vector<Case>& cases) {
  std::vector<Case> out;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (RunsOn(isa, i)) out.push_back(cases[i]);
  }
  return out;
}

}  // namespace tutti::parity
