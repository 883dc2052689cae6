// How much memory the keys and values of a decoder may take, and how long a text may be in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "app/settings.h"
#include "base/status.h"

namespace tutti::app {

// The context a sequence may use, in tokens, and what to tell the operator about it: what was asked
// for, else the model's own up to kDefaultContextCap. `pool_tokens`: what the cache holds, of
// blocks of `block_bytes`. Errors: invalid_value for more than the model's, and for more than the
// cache holds where it was asked for; else it is lowered with a notice.
Result<int> ChooseContext(const Settings& settings, int model_context, int64_t pool_tokens,
                          size_t block_bytes, std::string& notice);

// A cache that was asked for must fit before the weights are packed. The default is not judged: its
// pages are taken as they are used. Errors: out_of_memory.
Status CheckKvFits(const Settings& settings);

}  // namespace tutti::app
