// Metadata: key-value pairs that a client attaches to an object of the server. The server stores
// and returns them in the client's order and never interprets them. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// OpenAI's limits; lengths in characters.
inline constexpr size_t kMaxMetadataPairs = 16;
inline constexpr size_t kMaxMetadataKey = 64;
inline constexpr size_t kMaxMetadataValue = 512;

// Reads an object whose size has been checked. Errors: invalid_value, which names the pair below
// `param`.
Result<Metadata> ReadMetadata(const Json& object, const std::string& param);

void WriteMetadata(const Metadata& metadata, JsonWriter* json);

}  // namespace tutti::protocol
