// The member `cache` of a usage object: how much of the prompt the prefix cache had, and why not
// more (docs/kv-cache.md). The same in every dialect. Pure.
#pragma once

#include "api/types.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {

// A request asks for it by the field `explain_cache`, or by the header field of this name.
inline constexpr const char* kExplainCacheHeader = "x-tutti-explain-cache";

// Adds the member to an open object; nothing if the request did not ask for it.
void WritePrefixReport(const api::Usage& usage, JsonWriter* json);

}  // namespace tutti::protocol
