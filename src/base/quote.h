// Quote and Printable: escape control characters and malformed UTF-8 in untrusted bytes, for a
// message or a terminal. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// `bytes` in double quotes; more than `max_bytes` are cut and followed by "...".
std::string Quote(std::string_view bytes, size_t max_bytes = 64);
// `bytes` without surrounding quotes and uncut; quotes and backslashes in it are not escaped.
std::string Printable(std::string_view bytes);

}  // namespace tutti
