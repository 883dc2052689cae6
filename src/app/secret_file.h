// Files of secrets that options name. Pure but for the reading; any thread.
#pragma once

#include <string>

#include "app/settings.h"
#include "base/status.h"

namespace tutti::app {

// What stands in the file that `option` names (at most 16 KiB). Of a secret: without the one line
// end that editors add, and of a file that only its owner may read. Error: invalid_value of the
// option; never with any of the text.
Result<std::string> ReadOptionFile(const char* option, const std::string& path, bool secret);

}  // namespace tutti::app
