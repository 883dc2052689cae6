// The one key between a client and a server of ours: from a file, or from TUTTI_API_KEY.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::app {

// The key of `file`, or without one that of the environment, or "" for neither; where both hold one
// and they differ, a line on standard error says so. Errors: invalid_value for a file that is
// missing or that others may read, and for what cannot be a key.
Result<std::string> ApiKey(const std::string& file);

}  // namespace tutti::app
