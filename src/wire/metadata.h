// Metadata: pairs that a client keeps beside an object of ours. The server stores and shows them in
// the client's order and never reads them. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "wire/json.h"
#include "wire/json_writer.h"

namespace tutti::wire {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// OpenAI's limits; lengths in characters.
inline constexpr size_t kMaxMetadataPairs = 16;
inline constexpr size_t kMaxMetadataKey = 64;
inline constexpr size_t kMaxMetadataValue = 512;

// Of an object whose size was checked. Errors: invalid_value, naming the pair below `param`.
Result<Metadata> ReadMetadata(const Json& object, const std::string& param);

void WriteMetadata(const Metadata& metadata, JsonWriter* json);

}  // namespace tutti::wire
