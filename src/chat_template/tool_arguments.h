// Reading the name and the arguments of one whole tool call in each syntax. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "chat_template/tool_syntax.h"

namespace tutti::chat_template {

struct ReadCall {
  std::string name = {};
  std::string arguments = {};  // a JSON object as text
  std::string id = {};         // as the model wrote it; empty: it wrote none
};

// `text`: {"name": ..., "arguments": {...}} in any order, with the syntax's key or one of the usual
// ones; arguments that are a string hold a JSON object themselves. Absent: it is no call.
std::optional<ReadCall> ReadJsonCall(std::string_view text);

// `text`: NAME(KEY=VALUE, ...). Values are Python's literals, or JSON's.
std::optional<ReadCall> ReadPythonicCall(std::string_view text);

// The arguments of a tagged call as a JSON object. `schema`: of the tool's parameters; may be
// empty. Absent: a tag is not closed.
std::optional<std::string> ReadTaggedArguments(const ToolSyntax& syntax, std::string_view text,
                                               std::string_view schema);

// The arguments of a bare call, {KEY:VALUE,...}, as a JSON object. `schema`: of the tool's
// parameters; may be empty. A text whose parameter is declared as something else is read as JSON
// where it is some. Absent: the object is not closed, or a key or value is missing.
std::optional<std::string> ReadBareArguments(const ToolSyntax& syntax, std::string_view text,
                                             std::string_view schema);
// A JSON value as a bare call writes it; `json` is valid.
std::string WriteBare(const ToolSyntax& syntax, std::string_view json);

// The members of a JSON object as they are written: numbers keep their digits. Empty where the text
// is no object.
struct JsonMember {
  std::string key = {};
  std::string_view value = {};  // within the text
};
std::vector<JsonMember> JsonMembers(std::string_view object);
// The text of a JSON string; absent: it is another value.
std::optional<std::string> JsonText(std::string_view json);

// A text as a JSON string with its quotes.
std::string JsonString(std::string_view text);
// The schema that the text holds, nested 64 levels deep at most; empty where it is no object. Where
// its root refers to one of its definitions, it has the definition's members.
boost::json::object SchemaObjectOf(std::string_view text);
// Whether the text is one JSON object, with nothing but white space around it.
bool IsJsonObject(std::string_view text);

// Whether the schemas of tools, which come as text, are JSON objects of at most 1 MiB together that
// allow objects; an empty text stands for none. Errors: invalid_value and schema_invalid with the
// path of the text or of its `type`; grammar_too_complex.
Status CheckToolSchemas(const std::vector<api::Tool>& tools);

std::string_view Trim(std::string_view text);  // white space of JSON

}  // namespace tutti::chat_template
