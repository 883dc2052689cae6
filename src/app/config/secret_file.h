// Reading of secret files that options name. Any thread.
#pragma once

#include <string>

#include "app/config/settings.h"
#include "base/status.h"

namespace tutti::app {

// Reads the file that `option` names (at most 16 KiB). For a secret, removes one final newline and
// requires that only the owner can read the file. Errors: invalid_value for the option; never
// contains any of the text.
Result<std::string> ReadOptionFile(const char* option, const std::string& path, bool secret);

}  // namespace tutti::app
