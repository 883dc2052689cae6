// The tests of the subset: value is name(args).
#pragma once

#include <string_view>

#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

bool IsPredicate(std::string_view name);
// Fails when there is no test of this name.
bool ApplyPredicate(Runtime& rt, std::string_view name, const Value& input, const Arguments& args);

}  // namespace tutti::tokenizer::jinja
