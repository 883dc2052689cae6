// Identifiers shared by every folder.
#pragma once

#include <cstdint>

namespace tutti {

using TokenId = int32_t;  // index into a vocabulary, >= 0
inline constexpr TokenId kNoToken = -1;

// Tokens of KV cache per block, everywhere (design: 32, equal to the attention key tile).
inline constexpr int kBlockTokens = 32;

}  // namespace tutti
