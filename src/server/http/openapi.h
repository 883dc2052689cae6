// The OpenAPI 3.1 document of the server's routes: from the table of routes, the schema table
// (protocol/schema/json_schema.h), and the shapes of answers, which are written here. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tutti::http {

// JSON. `version` is the program's.
std::string OpenApiDocument(std::string_view version);

}  // namespace tutti::http
