// UTF-8 helpers of the doors. Pure; linear in the input.
// Source of the byte ranges: Unicode 15, table 3-7 (well-formed byte sequences).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::wire {

// Length of the well-formed prefix: text.size() when all of it is well-formed.
size_t ValidUtf8Prefix(std::string_view text);
inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

// At most 64 bytes of client input for an error message, printable and well-formed: control
// characters and malformed bytes become '?', a cut shows as "...".
std::string Excerpt(std::string_view input);

// Characters (code points) of well-formed text; for other bytes, those that do not continue a
// character.
size_t CountCharacters(std::string_view text);

}  // namespace tutti::wire
