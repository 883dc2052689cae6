// Regular expressions as clients and schemas write them: ECMA-262 with the `u` flag, without
// look-around, back references and word boundaries.
//
// What is not supported is refused by its name and place. Pure; one thread for a grammar.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/expression.h"
#include "grammar/json_text.h"
#include "grammar/limits.h"

namespace tutti::grammar {

enum class RegexMatch : uint8_t {
  kWhole,   // the whole text matches, as structured output means an expression
  kSearch,  // a match stands anywhere in the text, as JSON Schema means `pattern`
};

// The texts that match, for the body of a regular rule: it may hold anchors. Errors: grammar_regex
// (with the place), grammar_too_complex.
Result<ExprId> ParseRegex(Grammar& grammar, std::string_view pattern, Spelling spelling,
                          RegexMatch match, Budget& budget);

}  // namespace tutti::grammar
