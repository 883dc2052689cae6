// Identifiers shared by every folder.
#pragma once

#include <cstdint>

namespace tutti {

using TokenId = int32_t;  // index into a vocabulary, >= 0
inline constexpr TokenId kNoToken = -1;

// Tokens of KV cache per block, everywhere (equal to the key tile of attention).
inline constexpr int kBlockTokens = 32;

// Number of blocks for `tokens` >= 0 tokens.
template <typename Count>
constexpr Count BlocksFor(Count tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

}  // namespace tutti
