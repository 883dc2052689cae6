// By which two bodies are known to say the same.
#pragma once

#include <string>
#include <string_view>

namespace tutti::calls {

// SHA-256 (32 bytes) of what the body says: of its JSON, however that is written, or of its bytes
// where it is none. Reads all of the body: of a long one some tens of milliseconds. Any thread.
std::string PrintOf(std::string_view body);

}  // namespace tutti::calls
