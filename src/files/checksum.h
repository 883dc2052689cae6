// Xxh64: a checksum at the speed of memory. It detects accidental changes, not intended ones: use
// Sha256 (digest.h) where data must not be forged.
//
// Pure; any thread. Source: the xxHash specification, XXH64, version 0.1.1; seed 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::files {

uint64_t Xxh64(std::span<const std::byte> bytes);

}  // namespace tutti::files
