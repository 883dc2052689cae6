// Errors for invalid values of request fields; the excerpts that they show, and the lengths that
// they are about. Pure; linear in the input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "api/validate.h"
#include "base/status.h"
#include "base/utf8.h"

namespace tutti::protocol {

// invalid_value for a field that must be `rule`.
inline Status MustBe(const std::string& param, const std::string& rule) {
  return BadValue(param, param + " must be " + rule);
}

// missing_required_parameter for field `param`; `message` is a complete sentence.
inline Status IsMissing(std::string param, std::string message) {
  return InvalidArgument("missing_required_parameter", std::move(message))
      .WithParam(std::move(param));
}
inline Status IsMissing(const std::string& param) {
  return IsMissing(param, param + " is missing");
}

// unsupported_parameter for field `param`; `message` is a complete sentence.
inline Status NotSupported(std::string param, std::string message) {
  return InvalidArgument("unsupported_parameter", std::move(message)).WithParam(std::move(param));
}

using api::ElementPath;  // "messages[3]"

// Excerpt of client input for an error message: at most 64 bytes; control characters and malformed
// bytes become '?'; "..." marks a cut.
std::string Excerpt(std::string_view input);

// Number of characters (code points) of well-formed text; otherwise the number of bytes that are
// not continuation bytes.
size_t CountCharacters(std::string_view text);

}  // namespace tutti::protocol
