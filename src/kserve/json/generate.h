// POST .../generate and .../generate_stream of KServe v2: one flat JSON object in, one or a stream
// of them out, as Triton's generate extension has it. Pure; any thread.
//
// A member whose name is that of an input of the model is that tensor: a scalar or a list of them,
// of batch 1. `id` is the request's, `parameters` an object whose members are read like those
// beside it; what names no input is a parameter of the request. Of a response each output is a
// member: one element as a scalar, else a list.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "kserve/json/request.h"
#include "kserve/model.h"

namespace tutti::kserve {

// `stream`: where the model has an input of that name, it is true unless the client says otherwise.
Result<RequestBody> ReadGenerate(const ModelConfig& config, std::string_view body, bool stream,
                                 const JsonReadOptions& options);

// Errors: as WriteElements().
Result<std::string> GenerateBody(const std::string& id, const std::string& model,
                                 const InferResponse& response);

}  // namespace tutti::kserve
