// Sampling defaults that the publisher of a model recommends, for parameters that a request does
// not set. Pure; any thread.
#pragma once

#include <cstdint>

#include "api/types.h"

namespace tutti::api {

// Replaces each parameter that the request did not set with the value in `defaults`, if any.
void ApplyDefaults(const SamplingDefaults& defaults, SamplingParams* params);

// Bit mask of the parameters that the request did not set, for code that stores or transmits
// requests. MarkSilent() ignores unknown bits.
uint32_t SilentParameters(const SamplingParams& params);
void MarkSilent(uint32_t silent, SamplingParams* params);

}  // namespace tutti::api
