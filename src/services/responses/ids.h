// Names and seeds that nobody can guess: an id is all that tells a response from another, so it
// must not be found by trying. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::responses {

// `prefix` ("resp_") and 32 hex digits of the system's random numbers.
std::string NewId(std::string_view prefix);

// 64 of them.
uint64_t RandomBits();

// For a request that names none: 0 or more, so that every door can carry it.
int64_t NewSeed();

}  // namespace tutti::responses
