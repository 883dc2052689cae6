// Conversions between the public types (include/tutti) and those of api/. Pure, except that a
// timeout reads the clock.
#pragma once

#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::library {

Error ToError(const Status& status);  // of a status that is not OK
api::Prompt ToApi(Prompt prompt);
api::GenerateRequest ToApi(Request request);
TokenLogprobs FromApi(const api::TokenLogprobs& logprobs);
FinishReason FromApi(api::FinishReason reason);
std::vector<ToolCallDelta> FromApi(const std::vector<api::ToolCallDelta>& deltas);
Usage FromApi(const api::Usage& usage);
Timings FromApi(const api::Timings& timings);

}  // namespace tutti::library
