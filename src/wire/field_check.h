// One value of a request against its row of the schema: type, range, and the error that says what
// it must be. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "wire/json.h"
#include "wire/schema.h"

namespace tutti::wire {

// Type and range of one value; `param` is the path for the error ("messages[2].name"). null is not
// passed here.
Status CheckValue(const FieldSpec& field, const Json& value, const std::string& param);

// An integer given as 3 or 3.0; nothing for other values, outside int64, and for 2^53 and beyond
// with a point or exponent, where a double is not exact.
std::optional<int64_t> AsInteger(const Json& value);

// A list of token ids; code token_out_of_range or invalid_value, naming the element.
Result<std::vector<TokenId>> ReadTokenIds(const JsonArray& array, const std::string& param);

}  // namespace tutti::wire
