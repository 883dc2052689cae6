// Reads the JSON schema of a tool's parameters and decides which parts of it the grammar of a
// format can enforce.
//
// Pure; any thread. Schemas come from clients.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "chat_template/tool_syntax.h"

namespace tutti::chat_template {

// The path of the tool's schema in the request, for messages.
std::string SchemaParam(const api::Tool& tool);

// One parameter of a function.
struct ToolParameter {
  std::string name;
  std::string schema;                     // stands alone
  std::string type;                       // empty: several, or none is declared
  std::vector<std::string> choices = {};  // of an enum of texts
  bool required = false;
  std::string param = {};
};

// The properties of the tool's schema, those that are required first.
std::vector<ToolParameter> ParametersOf(const api::Tool& tool);

// A string, which formats with tags write without quotes.
bool IsText(const ToolParameter& parameter);

// The path of a parameter whose name the format cannot write so that it is read again, such as
// `max results` where NAME=VALUE is Python. Empty: there is none.
std::string UnwritableParameter(const ToolSyntax& syntax, const api::Tool& tool);

// Where the tool's schema has a keyword that the format's grammar leaves out, because its texts are
// not written as JSON: "tools[0].function.parameters.properties.id.pattern". Empty: nowhere.
std::string UnenforcedKeyword(const ToolSyntax& syntax, const api::Tool& tool);

// The tool's schema, less the keywords that constrain values beyond their types: what the
// arguments of a tool that is not strict satisfy if its whole schema cannot be enforced.
std::string RelaxedSchema(std::string_view schema);

// The schema for a tool's arguments: always that of an object, even if the client left parts of it
// out.
std::string ArgumentsSchema(std::string_view schema);

}  // namespace tutti::chat_template
