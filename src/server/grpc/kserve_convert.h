// Messages of inference/infer.proto as requests and responses of the KServe core, and back. Pure.
#pragma once

#include <inference/infer.pb.h>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/kserve/model.h"

namespace tutti::rpc {

// Takes the tensors' bytes out of `message`. Parameters that mean something over HTTP alone
// (binary_data_output, headers) are ordinary ones here, as with Triton: the model's. Errors:
// invalid_value, unsupported_parameter.
Result<kserve::InferRequest> ToRequest(inference::ModelInferRequest& message, TimePoint now);

// Takes the tensors' bytes out of `response`.
void FromResponse(kserve::InferResponse& response, inference::ModelInferResponse* message);

}  // namespace tutti::rpc
