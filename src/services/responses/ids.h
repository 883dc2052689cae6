// Unguessable ids and seeds from the system's random generator. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/types.h"

namespace tutti::responses {

// `prefix` ("resp_") and 32 hex digits of the system's random numbers.
std::string NewId(std::string_view prefix);

// 64 of them.
uint64_t RandomBits();

// 0 or more, so that every server can carry it.
int64_t NewSeed();

// Makes `request` repeatable: gives a seed to a sampling request that has none. The response cache
// does not store such answers, because no other request has this seed. Temperature 0 needs no seed.
void SettleSeed(api::GenerateRequest* request);

}  // namespace tutti::responses
