#include "api/sampling_defaults.h"

#include <type_traits>

namespace tutti::api {
namespace {

template <typename T>
void Apply(const std::optional<T>& value, Parameter<T>* parameter) {
  if (value.has_value() && !parameter->given()) *parameter = Parameter<T>::Default(*value);
}

// Calls `visit` with each of the parameters, in the order of their bits. `Params` may be const.
template <typename Params, typename Visit>
void ForEach(Params& params, const Visit& visit) {
  visit(params.temperature);
  visit(params.top_p);
  visit(params.top_k);
  visit(params.min_p);
  visit(params.repetition_penalty);
}

}  // namespace

uint32_t SilentParameters(const SamplingParams& params) {
  uint32_t silent = 0, bit = 1;
  ForEach(params, [&](const auto& parameter) {
    if (!parameter.given()) silent |= bit;
    bit <<= 1;
  });
  return silent;
}

void MarkSilent(uint32_t silent, SamplingParams* params) {
  uint32_t bit = 1;
  ForEach(*params, [&](auto& parameter) {
    if ((silent & bit) != 0)
      parameter = std::remove_reference_t<decltype(parameter)>::Default(parameter.value());
    bit <<= 1;
  });
}

void ApplyDefaults(const SamplingDefaults& defaults, SamplingParams* params) {
  Apply(defaults.temperature, &params->temperature);
  Apply(defaults.top_p, &params->top_p);
  Apply(defaults.top_k, &params->top_k);
  Apply(defaults.min_p, &params->min_p);
  Apply(defaults.repetition_penalty, &params->repetition_penalty);
}

}  // namespace tutti::api
