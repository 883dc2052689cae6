// Remarks of a model's files, as `inspect` prints them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "base/quote.h"

namespace tutti::cli {

inline void PrintRemarks(const std::vector<std::string>& remarks) {
  for (const std::string& remark : remarks) std::printf("warning: %s\n", Printable(remark).c_str());
}

}  // namespace tutti::cli
