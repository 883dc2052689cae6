#include "wire/metadata.h"

#include "wire/utf8.h"

namespace tutti::wire {
namespace {

Status Bad(std::string param, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(std::move(param));
}

}  // namespace

Result<Metadata> ReadMetadata(const Json& object, const std::string& param) {
  const JsonObject& pairs = object.get_object();
  if (pairs.size() > kMaxMetadataPairs) {
    return Bad(param, param + " must hold at most " + std::to_string(kMaxMetadataPairs) +
                          " pairs, not " + std::to_string(pairs.size()));
  }
  Metadata metadata;
  metadata.reserve(pairs.size());
  for (const auto& pair : pairs) {
    const std::string_view key(pair.key().data(), pair.key().size());
    const std::string member = param + "." + Excerpt(key);
    if (CountCharacters(key) > kMaxMetadataKey) {
      return Bad(param,
                 param + " has a key above " + std::to_string(kMaxMetadataKey) + " characters");
    }
    if (!pair.value().is_string()) return Bad(member, member + " must be a string");
    const std::string_view value(pair.value().get_string().data(),
                                 pair.value().get_string().size());
    if (CountCharacters(value) > kMaxMetadataValue) {
      return Bad(member,
                 member + " must be at most " + std::to_string(kMaxMetadataValue) + " characters");
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

}  // namespace tutti::wire
