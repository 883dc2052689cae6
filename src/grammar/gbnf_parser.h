// Grammars as text: llama.cpp's GBNF and what other servers call EBNF, which is nearly the same.
//
//   root   ::= "yes" | "no" reason
//   reason ::= ", because " [a-z ]{1,80} "."     # a comment
//
// The language is described in docs/structured-output.md. Pure.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/expression.h"
#include "grammar/limits.h"

namespace tutti::grammar {

// Adds the rules and returns `root`. Errors: grammar_syntax (with the line), grammar_too_complex.
Result<RuleId> ParseGbnf(Grammar& grammar, std::string_view text, Budget& budget);

}  // namespace tutti::grammar
