// Fields of all generating routes: the sampling chain, and constraints on the answer. Pure.
#pragma once

#include <optional>

#include "api/types.h"
#include "base/status.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// --- the sampling chain ---

// Reads all SamplingParams except lengths and log-probabilities, whose names depend on the dialect.
// `object` has been checked against a scope of kSampled; absent fields leave `params` unchanged.
void ReadSampling(const CheckedObject& object, api::SamplingParams* params);

// Maximum number of reasoning tokens, under the names that vLLM's and Qwen's clients use. Errors:
// invalid_value if both are given and differ.
Result<std::optional<int>> ReadReasoningBudget(const CheckedObject& object);

// --- constraints on the answer, in all dialects ---
//
// response_format (OpenAI), text.format (Responses), output_config.format (Anthropic),
// structured_outputs and guided_* (vLLM), grammar and json_schema (llama.cpp), format (Ollama).

// The constraint of a request; nullopt if there is none. `object` was checked against a scope of
// kSampled. Errors, with the field: invalid_value (also if two fields constrain the answer),
// unsupported_parameter (a form that is not enforced).
Result<std::optional<api::Constraint>> ReadConstraint(const CheckedObject& object);

}  // namespace tutti::protocol
