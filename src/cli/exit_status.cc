#include "cli/exit_status.h"

#include <cstdio>

#include "base/quote.h"

namespace tutti::cli {
namespace {

void Print(const Status& status) {
  std::fprintf(stderr, "tutti: %s: %s\n", status.reason().c_str(),
               Printable(status.message()).c_str());
}

}  // namespace

int Fail(const Status& status) {
  Print(status);
  return status.reason() == "invalid_value" || status.reason() == "unknown_parameter" ? kExitConfig
                                                                                      : kExitFailed;
}

int FailConfig(const Status& status) {
  Print(status);
  return kExitConfig;
}

}  // namespace tutti::cli
