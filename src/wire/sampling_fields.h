// The fields of the sampling chain: the same on every route that generates. Pure.
#pragma once

#include "api/types.h"
#include "wire/checked_object.h"

namespace tutti::wire {

// All of SamplingParams but lengths and log-probabilities, which each dialect has its own words
// for. `object` has been checked against a scope of kSampled; what it does not say keeps the value
// that `params` has.
void ReadSampling(const CheckedObject& object, api::SamplingParams* params);

}  // namespace tutti::wire
