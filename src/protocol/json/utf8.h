// UTF-8 helpers of the servers, in addition to base/utf8.h. Pure; linear in the input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace tutti::protocol {

// Excerpt of client input for an error message: at most 64 bytes; control characters and malformed
// bytes become '?'; "..." marks a cut.
std::string Excerpt(std::string_view input);

// Number of characters (code points) of well-formed text; otherwise the number of bytes that are
// not continuation bytes.
size_t CountCharacters(std::string_view text);

}  // namespace tutti::protocol
