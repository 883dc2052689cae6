// Unguessable ids and seeds from the system's random generator. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// `prefix` ("resp_") and 32 random hex digits.
std::string NewId(std::string_view prefix);

// 64 random bits.
uint64_t RandomBits();

// A seed of 0 or more, so that every server can carry it.
int64_t NewSeed();

}  // namespace tutti
