// How a model is sampled from where a request does not say it: what its makers recommend. Pure; any
// thread.
#pragma once

#include <cstdint>

#include "api/types.h"

namespace tutti::api {

// The request with every parameter that it did not give taken from `defaults`, where they have it.
void ApplyDefaults(const SamplingDefaults& defaults, SamplingParams* params);

// Which of these parameters the request did not give, a bit each: for what carries or keeps
// requests. Bits that mean nothing are passed over.
uint32_t SilentParameters(const SamplingParams& params);
void MarkSilent(uint32_t silent, SamplingParams* params);

}  // namespace tutti::api
