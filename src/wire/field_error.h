// How a value that cannot be taken is told: by its field. Pure.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace tutti::wire {

// invalid_value of the field `param`; `message` is the whole sentence.
inline Status BadValue(std::string param, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(std::move(param));
}

// The same, of a field that must be `rule`.
inline Status MustBe(const std::string& param, const std::string& rule) {
  return BadValue(param, param + " must be " + rule);
}

// missing_required_parameter of the field `param`.
inline Status IsMissing(const std::string& param) {
  return InvalidArgument("missing_required_parameter", param + " is missing").WithParam(param);
}

// The path of an element of a list: "messages[3]".
inline std::string ElementPath(const std::string& list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

}  // namespace tutti::wire
