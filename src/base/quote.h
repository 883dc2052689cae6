// Quote, Printable: bytes of a file for a message or a terminal, with control characters and
// malformed UTF-8 escaped. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// In double quotes; what is longer than `max_bytes` is cut and followed by "...".
std::string Quote(std::string_view bytes, size_t max_bytes = 64);
// Without quotes around it, uncut, for a line of text: its quotes and backslashes stay.
std::string Printable(std::string_view bytes);

}  // namespace tutti
