// JSON text to Value, for tool schemas, tool arguments and test data.
#pragma once

#include <string_view>

#include "base/status.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

// Strict JSON, at most Value::kMaxDepth deep. All text is Origin::kClient. Whole numbers outside 64
// bits become floats. Errors: invalid_json.
Result<Value> ParseJson(std::string_view text);

}  // namespace tutti::tokenizer::jinja
