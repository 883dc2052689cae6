// Size of a decoder's KV cache and the context that fits into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "app/config/settings.h"
#include "base/status.h"

namespace tutti::app {

// Context of a sequence in tokens, and a notice for the operator: the requested context, else the
// model's own up to kDefaultContextCap. `pool_tokens`: capacity of the cache, in blocks of
// `block_bytes`. A default that exceeds the cache is lowered with a notice. Errors: invalid_value
// if the requested context exceeds the model's or the cache.
Result<int> ChooseContext(const Settings& settings, int model_context, int64_t pool_tokens,
                          size_t block_bytes, std::string& notice);

// Checks, before the weights are packed, that an explicitly sized cache fits into memory. The
// default size is not checked, because its pages are allocated on use. Errors: out_of_memory.
Status CheckKvFits(const Settings& settings);

}  // namespace tutti::app
