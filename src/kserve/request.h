// What can be told of an inference request before the model sees it, with the texts that KServe
// clients look for. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kserve/model.h"

namespace tutti::kserve {

inline constexpr size_t kMaxIdBytes = 1024;  // of a request's id and of a sequence's
inline constexpr size_t kMaxParameters = 64;

// Reads one parameter into its field of `request`, or among `parameters` where the protocol gives
// it no meaning. `now` is what a `timeout` counts from. Errors: invalid_value for a value of a
// wrong kind or range, a name that Triton keeps for itself, and beyond kMaxParameters.
Status ReadParameter(std::string name, ParameterValue value, TimePoint now, InferRequest* request);

// Errors: model_not_found ("Request for unknown model: ..."), invalid_value.
Status UnknownModel(std::string_view name);
Status CheckVersion(std::string_view model, std::string_view version);

// Of what the protocol has and this server does not: not_implemented. `what`: "shared memory".
Status NotOffered(std::string_view what);

// Names, types, shapes and amounts of bytes of all inputs against the model's configuration, the
// names of the outputs that are wanted, and the length of the id. Errors: invalid_value.
Status CheckRequest(const ModelConfig& config, const InferRequest& request);

// The first of that name, or null.
const TensorSpec* FindSpec(const std::vector<TensorSpec>& specs, std::string_view name);
// The input of that name, or null.
const Tensor* FindInput(const InferRequest& request, std::string_view name);

// Leaves the wanted outputs, in the order in which they were asked for. A model that makes all of
// them calls this last.
void KeepWanted(const std::vector<std::string>& wanted, std::vector<Tensor>* outputs);

// The batch of a request to a model that has one: the first dimension of its inputs.
int64_t BatchOf(const ModelConfig& config, const InferRequest& request);

}  // namespace tutti::kserve
