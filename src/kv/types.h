// Names shared by the KV folder and everyone who carries a block table.
#pragma once

#include <cstdint>

namespace tutti::kv {

using BlockId = int32_t;  // index of a block of kBlockTokens in the device's KV memory, >= 0
inline constexpr BlockId kNoBlock = -1;

}  // namespace tutti::kv
