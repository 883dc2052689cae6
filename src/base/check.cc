#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tutti::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  text_ << "CHECK failed at " << file << ":" << line << ": " << condition << " ";
}

CheckFailure::~CheckFailure() {
  std::fprintf(stderr, "%s\n", text_.str().c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace tutti::internal
