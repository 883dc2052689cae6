// Xxh64: whether bytes are those that were written, at the speed of memory. Against accidents, not
// against an author: what must not be forged takes Sha256 (digest.h).
//
// Pure; any thread. Source: the xxHash specification, XXH64, version 0.1.1; seed 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::files {

uint64_t Xxh64(std::span<const std::byte> bytes);

}  // namespace tutti::files
