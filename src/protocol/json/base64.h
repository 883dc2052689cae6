// Base64 (RFC 4648 section 4: standard alphabet, padded). Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti::protocol {

void AppendBase64(std::string_view bytes, std::string* out);

// The floats as little-endian float32 on any machine.
void AppendBase64Floats(std::span<const float> numbers, std::string* out);

}  // namespace tutti::protocol
