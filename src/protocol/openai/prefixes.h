// Pinned prefixes: POST /v1/prefixes, GET /v1/prefixes, DELETE /v1/prefixes/ID (docs/kv-cache.md).
// A prefix is the beginning of a chat or a text; it is computed, and its blocks stay in the prefix
// cache for a time. Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/openai/request.h"
#include "protocol/response_writer.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

inline constexpr int64_t kDefaultPinSeconds = 3600;
inline constexpr int64_t kMaxPinSeconds = 30 * 24 * 3600;

// Takes `ttl_s`, and the fields of a chat if there are `messages`, else those of a completion with
// one prompt. Errors: those of these; invalid_value, unsupported_parameter.
Result<GenerationCall> ParsePrefix(const Json& body, const ParseOptions& options);

// One JSON object at the end. The call must outlive the writer.
std::unique_ptr<ResponseWriter> MakePrefixWriter(const GenerationCall& call, ResponseHead head);

std::string PrefixListBody(const std::vector<api::PinnedPrefix>& pins);
std::string PrefixDeletedBody(const std::string& id);

}  // namespace tutti::protocol
