// The parts of the schema table, constructors of its rows, one per type, so that the tables are
// readable, and bounds that many rows share. Only for the files that define rows.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/schema/schema.h"

namespace tutti::protocol {

// Rows of encoder routes: /v1/embeddings, rerank, score, and TEI's.
std::vector<FieldSpec> EncodingRows();
// Rows of Anthropic's Messages API: /v1/messages, its token count, and nested objects.
std::vector<FieldSpec> AnthropicRows();
// Rows of dialogs: the Responses API, conversations and their export, and the payloads of both MQTT
// profiles.
std::vector<FieldSpec> DialogRows();

inline constexpr double kNameBytes = 256;               // model, user and other names
inline constexpr double kTextBytes = 64.0 * (1 << 20);  // prompts: the body limit binds first
inline constexpr double kMetadataBytes = 64 << 10;
inline constexpr double kDayMs = 24.0 * 3600 * 1000;

inline FieldSpec Row(std::string_view name, ScopeSet scopes, FieldType type, double low = 0,
                     double high = 0) {
  FieldSpec row;
  row.name = name;
  row.scopes = scopes;
  row.type = type;
  row.low = low;
  row.high = high;
  return row;
}
inline FieldSpec Flag(std::string_view name, ScopeSet scopes) {
  return Row(name, scopes, FieldType::kBool);
}
inline FieldSpec Int(std::string_view name, ScopeSet scopes, double low, double high) {
  return Row(name, scopes, FieldType::kInteger, low, high);
}
inline FieldSpec Num(std::string_view name, ScopeSet scopes, double low, double high) {
  return Row(name, scopes, FieldType::kNumber, low, high);
}
inline FieldSpec Text(std::string_view name, ScopeSet scopes, double low, double high) {
  return Row(name, scopes, FieldType::kString, low, high);
}
inline FieldSpec Choice(std::string_view name, ScopeSet scopes, std::string_view words) {
  FieldSpec row = Row(name, scopes, FieldType::kChoice);
  row.words = words;
  return row;
}
inline FieldSpec Tokens(std::string_view name, ScopeSet scopes, size_t least, size_t most) {
  FieldSpec row = Row(name, scopes, FieldType::kTokenIds, static_cast<double>(least),
                      static_cast<double>(most));
  row.count = most;
  row.out_of_range = "token_out_of_range";
  return row;
}
inline FieldSpec Required(FieldSpec row) {
  row.required = true;
  return row;
}
// A field whose neutral values (neutral_values.h) have an effect in combination with another field.
inline FieldSpec KeepsNeutral(FieldSpec row) {
  row.keeps_neutral = true;
  return row;
}
inline FieldSpec AboveLow(FieldSpec row) {
  row.above_low = true;
  return row;
}
inline FieldSpec WithoutEffect(FieldSpec row) {
  row.field_class = FieldClass::kNoEffect;
  return row;
}
inline FieldSpec Refused(std::string_view name, ScopeSet scopes,
                         std::vector<std::string> neutral = {}, std::string_view hint = "") {
  FieldSpec row = Row(name, scopes, FieldType::kAny);
  row.field_class = FieldClass::kRefused;
  row.neutral = std::move(neutral);
  row.hint = hint;
  return row;
}

}  // namespace tutti::protocol
