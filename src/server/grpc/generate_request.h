// Reads tutti.v1.GenerateRequest. Pure; the inference API checks ranges for all servers.
#pragma once

#include <tutti/v1/tutti.pb.h>

#include "api/types.h"
#include "base/status.h"

namespace tutti::rpc {

// Moves texts out of `message`. Errors: invalid_value, missing_required_parameter and empty_prompt,
// each with the field's path.
Result<api::GenerateRequest> ReadGenerateRequest(v1::GenerateRequest& message);

}  // namespace tutti::rpc
