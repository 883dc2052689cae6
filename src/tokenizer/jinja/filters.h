// The filters of the subset: value | name(args).
#pragma once

#include <string_view>

#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

bool IsFilter(std::string_view name);
// Fails when there is no filter of this name.
Value ApplyFilter(Runtime& rt, std::string_view name, const Value& input, const Arguments& args);

}  // namespace tutti::tokenizer::jinja
