// Compiles a JSON schema (drafts 4 to 2020-12) to a grammar of the JSON texts that satisfy it.
//
// Every text of the grammar satisfies the schema. Declared properties come in the order of the
// schema, others behind them; whitespace is bounded; strings under a pattern, a format or an enum
// are written without needless escapes, and numbers under a bound without an exponent. A keyword
// that cannot be enforced is refused by its path, wherever the value that it is about may occur.
// docs/structured-output.md has the list. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "grammar/expression.h"
#include "grammar/limits.h"

namespace tutti::grammar {

struct JsonSchemaOptions {
  uint32_t space = 32;  // most blanks of indentation; 0: no whitespace between tokens
  // Objects may have members that their schema does not declare, as JSON Schema says. If false, an
  // object whose schema has `properties` and no keyword for other members has only the declared
  // ones. All its texts still satisfy the schema, and a model cannot invent any number of members.
  bool open_objects = false;
};

// Adds the rules and returns the one for the whole text. Errors, `param` being the path within the
// schema: schema_invalid, schema_unsupported, schema_reference, grammar_regex (of a pattern),
// grammar_too_complex.
Result<RuleId> AddJsonSchema(Grammar& grammar, std::string_view schema,
                             const JsonSchemaOptions& options, Budget& budget);

}  // namespace tutti::grammar
