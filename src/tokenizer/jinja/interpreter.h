// Runs a Program: walks the tree, writes text.
//
// Scopes are those of Jinja: a set inside a for, macro, call, filter or set block ends with it; an
// if opens none. Recursion is bounded twice, by the nodes being evaluated and by the macros being
// called, so that a render fits a stack of 256 KiB.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/text.h"

namespace tutti::tokenizer::jinja {

// `variables` are visible to the template by name. The text, or the first error (param "messages").
Result<Text> Run(const Program& program,
                 const std::vector<std::pair<std::string, Value>>& variables, const Limits& limits);

}  // namespace tutti::tokenizer::jinja
