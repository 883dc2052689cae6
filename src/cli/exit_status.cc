#include "cli/exit_status.h"

#include <cstdio>
#include <string>

#include "base/quote.h"

namespace tutti::cli {
namespace {

void Print(const Status& status) {
  // The place of the fault, where the sentence does not name it: a path within a schema.
  const bool placed = status.message().find(status.param()) == std::string::npos;
  std::fprintf(stderr, "tutti: %s: %s%s\n", status.reason().c_str(),
               Printable(status.message()).c_str(),
               placed ? (" (at " + Printable(status.param()) + ")").c_str() : "");
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
