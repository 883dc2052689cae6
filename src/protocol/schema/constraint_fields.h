// Fields that constrain the answer, in all dialects: response_format (OpenAI), text.format
// (Responses), output_config.format (Anthropic), structured_outputs and guided_* (vLLM), grammar
// and json_schema (llama.cpp), format (Ollama). Pure.
#pragma once

#include <optional>

#include "api/types.h"
#include "base/status.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// The constraint of a request; nullopt if there is none. `object` was checked against a scope of
// kSampled. Errors, with the field: invalid_value (also if two fields constrain the answer),
// unsupported_parameter (a form that is not enforced).
Result<std::optional<api::Constraint>> ReadConstraint(const CheckedObject& object);

}  // namespace tutti::protocol
