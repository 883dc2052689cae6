// The byte alphabet of byte-level BPE: 256 printable characters that stand for the 256 bytes in
// token spellings ("Ġthe" is " the"). Pure functions. Source: bytes_to_unicode() of OpenAI's GPT-2
// encoder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::tokenizer {

// The character that stands for `byte`.
char32_t ByteSymbol(unsigned char byte);

// The bytes that a spelling stands for; nothing if one of its characters is not in the alphabet.
std::optional<std::string> BytesOfSpelling(std::string_view spelling);

}  // namespace tutti::tokenizer
