// Fields of the sampling chain, the same on all generating routes. Pure.
#pragma once

#include <optional>

#include "api/types.h"
#include "base/status.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// Reads all SamplingParams except lengths and log-probabilities, whose names depend on the dialect.
// `object` has been checked against a scope of kSampled; absent fields leave `params` unchanged.
void ReadSampling(const CheckedObject& object, api::SamplingParams* params);

// Maximum number of reasoning tokens, under the names that vLLM's and Qwen's clients use. Errors:
// invalid_value if both are given and differ.
Result<std::optional<int>> ReadReasoningBudget(const CheckedObject& object);

}  // namespace tutti::protocol
