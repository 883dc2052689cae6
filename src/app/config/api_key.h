// The API key of the configuration, from a file or from TUTTI_API_KEY.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::app {

// Returns the key in `file`, else the key of the environment, else "". Prints a warning to standard
// error if both exist and differ. Errors: invalid_value (file missing or readable by others;
// malformed key).
Result<std::string> ApiKey(const std::string& file);

}  // namespace tutti::app
