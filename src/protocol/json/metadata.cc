#include "protocol/json/metadata.h"

#include "protocol/json/field_error.h"

namespace tutti::protocol {
Result<Metadata> ReadMetadata(const Json& object, const std::string& param) {
  const JsonObject& pairs = object.get_object();
  if (pairs.size() > kMaxMetadataPairs) {
    return BadValue(param, param + " must hold at most " + std::to_string(kMaxMetadataPairs) +
                               " pairs, not " + std::to_string(pairs.size()));
  }
  Metadata metadata;
  metadata.reserve(pairs.size());
  for (const auto& pair : pairs) {
    const std::string_view key(pair.key().data(), pair.key().size());
    const std::string member = param + "." + Excerpt(key);
    if (CountCharacters(key) > kMaxMetadataKey) {
      return BadValue(
          param, param + " has a key above " + std::to_string(kMaxMetadataKey) + " characters");
    }
    if (!pair.value().is_string()) return BadValue(member, member + " must be a string");
    const std::string_view value = TextOf(pair.value());
    if (CountCharacters(value) > kMaxMetadataValue) {
      return BadValue(
          member, member + " must be at most " + std::to_string(kMaxMetadataValue) + " characters");
    }
    metadata.emplace_back(key, value);
  }
  return metadata;
}

void WriteMetadata(const Metadata& metadata, JsonWriter* json) {
  json->BeginObject();
  for (const auto& [key, value] : metadata) json->Member(key, value);
  json->EndObject();
}

}  // namespace tutti::protocol
