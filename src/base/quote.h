// Quote: bytes of a file for a message or a terminal.
//
// Quote: in double quotes, with control characters and malformed UTF-8 escaped; what is longer than
// `max_bytes` is cut and followed by "...". Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// The same without quotes around it, uncut, for a line of text: quotes and backslashes stay.
std::string Printable(std::string_view bytes);

std::string Quote(std::string_view bytes, size_t max_bytes = 64);

}  // namespace tutti
