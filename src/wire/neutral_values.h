// Values of request fields that ask for nothing, whatever server or route they are sent to: clients
// send them by default, such as tools: [] or reasoning_effort: "none". A field with such a value
// counts as absent, whether the feature exists or not. The one table for all servers. Pure.
//
// What asks for nothing on some routes only stands in the row of the schema (schema_rows.h,
// Refused()).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "wire/json.h"

namespace tutti::wire {

struct NeutralField {
  std::string_view name;
  std::vector<std::string_view> values;  // as JSON
};

std::span<const NeutralField> NeutralFields();

// Numbers are compared by value: 0 and 0.0 are the same.
bool AsksForNothing(std::string_view name, const Json& value);

}  // namespace tutti::wire
