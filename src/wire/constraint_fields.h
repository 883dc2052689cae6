// What an answer is constrained to, in every spelling that clients use: response_format (OpenAI),
// text.format (Responses), output_config.format (Anthropic), structured_outputs and guided_*
// (vLLM), grammar and json_schema (llama.cpp), format (Ollama). Pure.
#pragma once

#include <optional>

#include "api/types.h"
#include "base/status.h"
#include "wire/checked_object.h"

namespace tutti::wire {

// Absent where nothing is asked. `object` was checked against a scope of kSampled. Errors, naming
// the field: invalid_value, unsupported_parameter (a form that is not enforced), and invalid_value
// where two fields constrain the answer.
Result<std::optional<api::Constraint>> ReadConstraint(const CheckedObject& object);

}  // namespace tutti::wire
