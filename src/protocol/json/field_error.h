// Errors for invalid values of request fields. Pure.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace tutti::protocol {

// invalid_value for field `param`; `message` is a complete sentence.
inline Status BadValue(std::string param, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(std::move(param));
}

// invalid_value for a field that must be `rule`.
inline Status MustBe(const std::string& param, const std::string& rule) {
  return BadValue(param, param + " must be " + rule);
}

// missing_required_parameter for field `param`.
inline Status IsMissing(const std::string& param) {
  return InvalidArgument("missing_required_parameter", param + " is missing").WithParam(param);
}

// The path of an element of a list: "messages[3]".
inline std::string ElementPath(const std::string& list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

}  // namespace tutti::protocol
