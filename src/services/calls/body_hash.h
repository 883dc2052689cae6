// Canonical hash of a request body.
#pragma once

#include <string>
#include <string_view>

namespace tutti::calls {

// SHA-256 (32 bytes) of the canonical form of a JSON body, or of the bytes of any other body. Long
// bodies take some tens of milliseconds. Any thread.
std::string CanonicalBodyHash(std::string_view body);

}  // namespace tutti::calls
