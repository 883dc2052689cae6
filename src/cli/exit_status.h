// Exit statuses of the command line, a contract of its users' scripts.
#pragma once

#include "base/status.h"

namespace tutti::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;   // at run time, also a refused model file
inline constexpr int kExitUsage = 2;    // unknown option, missing argument
inline constexpr int kExitConfig = 78;  // a bad value or key, from any source

// Prints "tutti: <why>" to standard error, in one line without control characters, and returns the
// status that fits.
int Fail(const Status& status);
// The same for configuration, for any reason of the status.
int FailConfig(const Status& status);

}  // namespace tutti::cli
