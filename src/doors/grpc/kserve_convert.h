// Messages of inference/infer.proto as requests and responses of the KServe core, and back. Pure.
#pragma once

#include <inference/infer.pb.h>

#include "base/clock.h"
#include "base/status.h"
#include "kserve/model.h"

namespace tutti::rpc {

// Takes the tensors' bytes out of `message`. Errors: invalid_value, unsupported_parameter.
Result<kserve::InferRequest> ToRequest(inference::ModelInferRequest& message, TimePoint now);

// Takes the tensors' bytes out of `response`.
void FromResponse(kserve::InferResponse& response, inference::ModelInferResponse* message);

}  // namespace tutti::rpc
