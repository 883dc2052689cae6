// SipHash-2-4 with a 128-bit result: a keyed hash whose collisions cannot be made without the key.
// Pure. Source: Aumasson, Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012; reference
// code for 128 bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tutti::kv {

using Hash128 = std::array<uint64_t, 2>;

Hash128 SipHash128(const Hash128& key, std::span<const uint8_t> data);

}  // namespace tutti::kv
