// Source text to Program.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.h"
#include "tokenizer/jinja/ast.h"

namespace tutti::tokenizer::jinja {

// Several times the longest template known; keeps the tree within tens of megabytes.
inline constexpr size_t kMaxSourceBytes = size_t{256} << 10;

// Linear in the source; recursion is bounded by kMaxNesting. Any thread.
// Errors: tokenizer_invalid (syntax; the message holds the line), tokenizer_unsupported (include,
// import, ...), tokenizer_limit (longer than kMaxSourceBytes), template_depth.
Result<Program> Parse(std::string_view source);

}  // namespace tutti::tokenizer::jinja
