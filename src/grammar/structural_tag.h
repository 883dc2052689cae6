// Structural tags: free text in which certain strings begin a part that a schema constrains.
//
// The form is vLLM's: {"structures": [{"begin": TEXT, "schema": SCHEMA, "end": TEXT}, ...],
// "triggers": [TEXT, ...]}. Text is free until a trigger; then one of the structures follows whose
// begin starts with that trigger, and text is free again behind its end. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "grammar/structure.h"

namespace tutti::grammar {

// `param` names the field for errors. Errors: invalid_value, missing_required_parameter.
Result<Structure> ParseStructuralTag(std::string_view json, const std::string& param);

}  // namespace tutti::grammar
