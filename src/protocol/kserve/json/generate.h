// POST .../generate and .../generate_stream of KServe v2: one flat JSON object as the request; one
// such object, or a stream of them, as the response (Triton's generate extension). Pure; any
// thread.
//
// A member named as an input of the model is that tensor, of batch 1: a scalar or a list. `id` is
// the request's id. `parameters` is an object whose members are read like the members at the top
// level; a member that names no input is a parameter of the request. In a response each output is a
// member: a scalar if it has one element, else a list.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/kserve/json/request.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

// `stream`: if the model has an input of that name, it is true unless the client sets it.
Result<RequestBody> ReadGenerate(const ModelConfig& config, std::string_view body, bool stream,
                                 const JsonReadOptions& options);

// Errors: as WriteElements().
Result<std::string> GenerateBody(const std::string& id, const std::string& model,
                                 const InferResponse& response);

}  // namespace tutti::kserve
