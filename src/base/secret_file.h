// A password or key that a file holds, so that it stands in no command line and no settings. Any
// thread.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti {

inline constexpr size_t kMostSecretBytes = 4096;

// The first line of `path`, 1 to kMostSecretBytes. A file that others may read is refused. Error:
// invalid_value, beginning with the path; never with any of its text.
Result<std::string> ReadSecretFile(const std::string& path);

}  // namespace tutti
