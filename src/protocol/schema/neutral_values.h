// Neutral values: values of request fields that have no effect on any route and that clients send
// by default, such as tools: [] or reasoning_effort: "none". A field with a neutral value counts as
// absent, whether or not the feature is supported. One table for all servers. Pure.
//
// Values that are neutral on some routes only are in the rows of the schema (schema/rows.h,
// Refused()).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "protocol/json/json.h"

namespace tutti::protocol {

struct NeutralField {
  std::string_view name;
  std::vector<std::string_view> values;  // as JSON
};

std::span<const NeutralField> NeutralFields();

// Numbers are compared by value: 0 and 0.0 are the same.
bool AsksForNothing(std::string_view name, const Json& value);

}  // namespace tutti::protocol
