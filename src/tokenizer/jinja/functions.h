// The functions of the subset: range, namespace, dict, raise_exception, strftime_now.
#pragma once

#include <string>

#include "tokenizer/jinja/object.h"
#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

Value CallFunction(Runtime& rt, Builtin function, const Arguments& args);

// {% set space.name = value %}
void SetAttribute(Runtime& rt, NamespaceObject* space, const std::string& name, const Value& value);

}  // namespace tutti::tokenizer::jinja
