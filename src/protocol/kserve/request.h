// Checks of an inference request before the model sees it, with the error texts that KServe clients
// expect; the gRPC and HTTP servers share them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

inline constexpr size_t kMaxIdBytes = 1024;  // of a request's id and of a sequence's
inline constexpr size_t kMaxParameters = 64;

// Reads one parameter into its field of `request`, or into `parameters` if the protocol gives it no
// meaning. A `timeout` counts from `now`. Errors: invalid_value for a value of a wrong type or
// range, for a name that Triton reserves, and beyond kMaxParameters.
Status ReadParameter(std::string name, ParameterValue value, TimePoint now, InferRequest* request);

// Errors: model_not_found ("Request for unknown model: ..."), invalid_value.
Status UnknownModel(std::string_view name);
Status CheckVersion(std::string_view model, std::string_view version);

// not_implemented, for a feature of the protocol that this server does not have, such as "shared
// memory".
Status NotOffered(std::string_view what);

// Checks names, types, shapes and byte counts of all inputs against the model's configuration, the
// names of the requested outputs, and the length of the id. Errors: invalid_value.
Status CheckRequest(const ModelConfig& config, const InferRequest& request);

// The first of that name, or null.
const TensorSpec* FindSpec(const std::vector<TensorSpec>& specs, std::string_view name);
// The input of that name, or null.
const Tensor* FindInput(const InferRequest& request, std::string_view name);

// Keeps the requested outputs, in the order of the request. A model that computes all outputs calls
// this last.
void KeepWanted(const std::vector<std::string>& wanted, std::vector<Tensor>* outputs);

// The batch of a request to a model that has one: the first dimension of its inputs.
int64_t BatchOf(const ModelConfig& config, const InferRequest& request);

// invalid_value with that text.
Status Bad(std::string message);

// A client's words as a text repeats them: in quotes, at most 64 bytes, printable.
std::string Quoted(std::string_view client_text);

}  // namespace tutti::kserve
