// Names and seeds that nobody can guess: an id is all that tells a response from another, so it
// must not be found by trying. Any thread.
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

// 0 or more, so that every door can carry it.
int64_t NewSeed();

// Has `request` come out the same when it is run again: one that draws and names no seed is given
// one. As that is nobody else's, no cache of answers keeps what it gives. One at temperature 0
// needs none.
void SettleSeed(api::GenerateRequest* request);

}  // namespace tutti::responses
