// The schema table as JSON Schema (draft 2020-12), for the OpenAPI document. Pure.
//
// A schema accepts what the server's checks accept, and more: bounds in bytes, and values that
// depend on each other or on the model, are not in it. null counts as absent wherever a field is
// not required. A field that is refused is not among the properties; the member `x-refused` of the
// object names it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "protocol/json/json_writer.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {

// "ChatCompletionRequest", the name of the schema of one kind of object.
std::string_view SchemaName(Scope scope);

// Schema of a member that its row leaves to its reader (FieldType::kAny, kArray), as JSON: "tools"
// is an array of tools. Empty: any value.
struct MemberSchema {
  std::string_view name;
  ScopeSet scopes = 0;
  std::string_view schema;
};

// Writes the schema of an object: of the rows of `scope`, or of all rows if it is 0. `members` are
// searched in their order.
void WriteObjectSchema(std::span<const FieldSpec> rows, ScopeSet scope,
                       std::span<const MemberSchema> members, JsonWriter* json);

// Writes a member `SchemaName(scope)` with its schema for each scope.
void WriteSchemas(JsonWriter* json);

}  // namespace tutti::protocol
