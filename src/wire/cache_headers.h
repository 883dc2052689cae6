// What clients say of kept answers and what they are told: Cache-Control in, x-cache and Age out;
// the fields of HTTP, and gRPC's metadata of the same names. Pure; any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/answer_cache.h"
#include "api/types.h"

namespace tutti::wire {

// RFC 9111, section 5.2.1: no-store, no-cache and max-age, in any order and case. Other directives,
// and what is none, change nothing: a client's cache control is a wish, never an error.
api::CacheControl ReadCacheControl(std::string_view field);
// x-cache-similarity: the least cosine of a question in other words, 0 to 1; what is none changes
// nothing.
double ReadSimilarity(std::string_view field);

// Of all prompts of a call together: a hit if each was one (the age: the greatest), else what was
// least so. Nothing where no cache was asked.
void TellCache(std::span<const std::shared_ptr<api::CacheReport>> reports,
               std::vector<std::pair<std::string, std::string>>* headers);

}  // namespace tutti::wire
