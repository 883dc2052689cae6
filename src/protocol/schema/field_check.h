// Checks one value of a request against its row of the schema: type and range; errors describe the
// valid values. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "protocol/json/json.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {

// Checks type and range of one value, which must not be null; `param` is the path for the error
// ("messages[2].name").
Status CheckValue(const FieldSpec& field, const Json& value, const std::string& param);

// Integer value of 3 or 3.0. nullopt for other values, outside int64, and from 2^53 on if written
// with a point or exponent, because a double is not exact there.
std::optional<int64_t> AsInteger(const Json& value);

// Parses a list of token ids. Errors: token_out_of_range, invalid_value, with the element.
Result<std::vector<TokenId>> ReadTokenIds(const JsonArray& array, const std::string& param);

}  // namespace tutti::protocol
