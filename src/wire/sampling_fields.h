// The fields of the sampling chain: the same on every route that generates. Pure.
#pragma once

#include <optional>

#include "api/types.h"
#include "base/status.h"
#include "wire/checked_object.h"

namespace tutti::wire {

// All of SamplingParams but lengths and log-probabilities, which each dialect has its own words
// for. `object` has been checked against a scope of kSampled; what it does not say keeps the value
// that `params` has.
void ReadSampling(const CheckedObject& object, api::SamplingParams* params);

// Tokens of reasoning at most, by the names that vLLM's and Qwen's clients use. Errors:
// invalid_value where both are given and differ.
Result<std::optional<int>> ReadReasoningBudget(const CheckedObject& object);

}  // namespace tutti::wire
