// UTF-8 helpers of the doors, beside those of base/utf8.h. Pure; linear in the input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace tutti::wire {

// At most 64 bytes of client input for an error message, printable and well-formed: control
// characters and malformed bytes become '?', a cut shows as "...".
std::string Excerpt(std::string_view input);

// Characters (code points) of well-formed text; for other bytes, those that do not continue a
// character.
size_t CountCharacters(std::string_view text);

}  // namespace tutti::wire
