// Fields of all generating routes: the sampling chain, the answer's length, options of its stream,
// and constraints on it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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

// Sets min_tokens of `object`, and max_tokens to `most` if it is given; `name` is the field that it
// came from. Errors: invalid_value if min_tokens exceeds `most`.
Status SetLengths(const CheckedObject& object, std::optional<int64_t> most, const std::string& name,
                  api::SamplingParams* params);

// The member stream_options, checked against `scope`; nullopt if absent. Errors: those of
// CheckedObject::Check(), and invalid_value if the answer is not streamed.
Result<std::optional<CheckedObject>> ReadStreamOptions(const CheckedObject& object, Scope scope,
                                                       bool stream, bool strict,
                                                       IgnoredFields* ignored);

// --- constraints on the answer, in all dialects ---
//
// response_format (OpenAI), text.format (Responses), output_config.format (Anthropic),
// structured_outputs and guided_* (vLLM), grammar and json_schema (llama.cpp), format (Ollama).

// The constraint of a request; nullopt if there is none. `object` was checked against a scope of
// kSampled. Errors, with the field: invalid_value (also if two fields constrain the answer),
// unsupported_parameter (a form that is not enforced).
Result<std::optional<api::Constraint>> ReadConstraint(const CheckedObject& object);

}  // namespace tutti::protocol
