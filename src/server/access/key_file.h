// Reads a server's single key from a file or the environment. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::access {

// The one key of `path`: its first line without surrounding blanks. A file that others may read is
// refused. Errors: invalid_value, of the option api-key-file.
Result<std::string> ReadApiKeyFile(const std::string& path);

// A key as it stands in `source`: without blanks around it, 1 to 4096 printable characters.
// Errors: as above.
Result<std::string> CheckApiKey(std::string_view key, const std::string& source);

}  // namespace tutti::access
