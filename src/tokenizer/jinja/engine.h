// The engine of the template language: source text to Program (parser.cc), and its run
// (interpreter.cc).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/text.h"

namespace tutti::tokenizer::jinja {

// Several times the longest template known; keeps the tree within tens of megabytes.
inline constexpr size_t kMaxSourceBytes = size_t{256} << 10;

// Linear in the source; recursion is bounded by kMaxNesting. Any thread.
// Errors: tokenizer_invalid (syntax; the message holds the line), tokenizer_unsupported (include,
// import, ...), tokenizer_limit (longer than kMaxSourceBytes), template_depth.
Result<Program> Parse(std::string_view source);

// Runs a Program: walks the tree, writes text.
//
// Scopes are those of Jinja: a set inside a for, macro, call, filter or set block ends with it; an
// if opens none. Recursion is bounded twice, by the nodes being evaluated and by the macros being
// called, so that a render fits a stack of 256 KiB.
//
// `variables` are visible to the template by name. The text, or the first error (param "messages").
Result<Text> Run(const Program& program,
                 const std::vector<std::pair<std::string, Value>>& variables, const Limits& limits);

}  // namespace tutti::tokenizer::jinja
