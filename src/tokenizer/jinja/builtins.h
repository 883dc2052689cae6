// The filters, tests, methods and functions that templates may call.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/jinja/object.h"
#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

// --- filters: value | name(args); filters.cc, sequence_filters.cc ---

bool IsFilter(std::string_view name);
// Fails when there is no filter of this name.
Value ApplyFilter(Runtime& rt, std::string_view name, const Value& input, const Arguments& args);

struct FilterEntry {
  std::string_view name;
  Value (*filter)(Runtime& rt, const Value& input, const Arguments& args);
};
// The filters of sequence_filters.cc, for filters.cc. Null when it is not one of them.
const FilterEntry* FindSequenceFilter(std::string_view name);

// --- tests: value is name(args); predicates.cc ---

bool IsPredicate(std::string_view name);
// Fails when there is no test of this name.
bool ApplyPredicate(Runtime& rt, std::string_view name, const Value& input, const Arguments& args);

// --- methods of strings, lists, dicts and `loop`, named and behaving as Python's; methods.cc ---
// Methods that would change a list or dict exist only to be refused, as in the reference sandbox.

bool HasMethod(const Value& receiver, std::string_view name);
// HasMethod(receiver, name) holds.
Value CallMethod(Runtime& rt, const Value& receiver, std::string_view name, const Arguments& args);

// --- functions: range, namespace, dict, raise_exception, strftime_now; functions.cc ---

Value CallFunction(Runtime& rt, Builtin function, const Arguments& args);

// {% set space.name = value %}
void SetAttribute(Runtime& rt, NamespaceObject* space, const std::string& name, const Value& value);

}  // namespace tutti::tokenizer::jinja
