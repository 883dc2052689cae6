// Cache headers: Cache-Control of requests, x-cache and Age of responses; HTTP header fields and
// gRPC metadata of the same names. Pure; any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/answer_cache.h"
#include "api/types.h"

namespace tutti::protocol {

// Parses no-store, no-cache and max-age (RFC 9111, section 5.2.1), in any order and case. Unknown
// and malformed directives are ignored.
api::CacheControl ReadCacheControl(std::string_view field);
// x-cache-similarity: minimum cosine similarity for a semantic hit, 0 to 1. A malformed value
// counts as 0.
double ReadSimilarity(std::string_view field);

// Appends the cache headers of a call with one or more prompts. x-cache is "hit" only if every
// prompt was a hit, and then Age is the greatest age; otherwise x-cache is the worst outcome.
// Appends nothing when no cache was consulted.
void AppendCacheHeaders(std::span<const std::shared_ptr<api::CacheReport>> reports,
                        std::vector<std::pair<std::string, std::string>>* headers);

}  // namespace tutti::protocol
