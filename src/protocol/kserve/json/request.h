// Bodies of KServe v2 requests over HTTP: JSON; or JSON followed by the raw bytes of tensors in
// order (the binary tensor extension); or the raw bytes of one tensor. Pure; any thread.
//
// Errors: those of protocol::ParseJson, invalid_value, missing_required_parameter;
// unknown_parameter for meaningless fields if `strict` is set.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/kserve/model.h"
#include "protocol/schema/checked_object.h"

namespace tutti::kserve {

struct JsonReadOptions {
  TimePoint now;        // start of a `timeout`
  bool strict = false;  // unknown fields are errors
};

// A parsed body. The request has no model yet.
struct RequestBody {
  InferRequest request;
  bool binary_outputs = false;                        // the default of all outputs
  std::vector<std::pair<std::string, bool>> outputs;  // exceptions by output name
  protocol::IgnoredFields ignored;                    // unknown fields and parameters

  bool Binary(std::string_view output) const;
};

// POST .../infer. The JSON ends after `json_bytes`, or with the body.
Result<RequestBody> ReadInfer(std::string_view body, std::optional<size_t> json_bytes,
                              const JsonReadOptions& options);

// The same with Inference-Header-Content-Length: 0: the body is the only input of the model, its
// shape follows from the number of bytes, and the batch size is 1. All outputs are binary.
Result<RequestBody> ReadRawInput(const ModelConfig& config, std::string body);

// Inference-Header-Content-Length: digits, at most `body_bytes`.
Result<size_t> ReadHeaderLength(std::string_view field, size_t body_bytes);

// POST .../generate and .../generate_stream (Triton's generate extension): one flat JSON object.
//
// A member named as an input of the model is that tensor, of batch 1: a scalar or a list. `id` is
// the request's id. `parameters` is an object whose members are read like the members at the top
// level; a member that names no input is a parameter of the request. `stream`: if the model has an
// input of that name, it is true unless the client sets it.
Result<RequestBody> ReadGenerate(const ModelConfig& config, std::string_view body, bool stream,
                                 const JsonReadOptions& options);

// Reads the members of `parameters`, which must be an object; null members are absent. HTTP's own
// parameters (binary_data_output, headers) do not reach the model.
Status ReadParameters(const protocol::Json& parameters, TimePoint now, RequestBody* body);

// POST .../repository/index: {"ready"?: bool}, or an empty body. Returns whether only ready models
// are requested.
Result<bool> ReadReadyOnly(std::string_view body);

}  // namespace tutti::kserve
