// The methods of strings, lists, dicts and `loop`, named and behaving as Python's. Methods that
// would change a list or dict exist only to be refused, as in the reference sandbox.
#pragma once

#include <string_view>

#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

bool HasMethod(const Value& receiver, std::string_view name);
// HasMethod(receiver, name) holds.
Value CallMethod(Runtime& rt, const Value& receiver, std::string_view name, const Arguments& args);

}  // namespace tutti::tokenizer::jinja
