// Texts of KServe errors, shared by the gRPC and HTTP servers. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::kserve {

// invalid_value with that text.
Status Bad(std::string message);

// A client's words as a text repeats them: in quotes, at most 64 bytes, printable.
std::string Quoted(std::string_view client_text);

}  // namespace tutti::kserve
