// The filters, tests, methods and functions that templates may call, and how they read their
// arguments.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/jinja/object.h"
#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

// ArgReader: matches the arguments of a call with parameter names, as Python does.
class ArgReader {
 public:
  static constexpr size_t kMaxParameters = 6;

  // Fails through `rt` when an argument has no parameter or a parameter has two arguments. `callee`
  // is for messages.
  ArgReader(Runtime& rt, const Arguments& args, std::string_view callee,
            std::initializer_list<std::string_view> parameters);

  bool ok() const { return !rt_.failed(); }
  bool Has(size_t i) const { return values_[i] != nullptr; }
  // Undefined when it was not given.
  Value Get(size_t i) const { return values_[i] != nullptr ? *values_[i] : Value(); }
  Value Require(size_t i) const;
  // These take none for "not given" and fail on another type.
  int64_t Int(size_t i, int64_t otherwise) const;
  bool Bool(size_t i, bool otherwise) const;  // any value, by its truth
  std::optional<Text> String(size_t i) const;

 private:
  Runtime& rt_;
  std::string callee_;
  std::array<const Value*, kMaxParameters> values_{};
  std::array<std::string_view, kMaxParameters> names_{};
};

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

// --- tests: value is name(args) ---

bool IsPredicate(std::string_view name);
// Fails when there is no test of this name.
bool ApplyPredicate(Runtime& rt, std::string_view name, const Value& input, const Arguments& args);

// --- methods of strings, lists, dicts and `loop`, named and behaving as Python's; methods.cc ---
// Methods that would change a list or dict exist only to be refused, as in the reference sandbox.

bool HasMethod(const Value& receiver, std::string_view name);
// HasMethod(receiver, name) holds.
Value CallMethod(Runtime& rt, const Value& receiver, std::string_view name, const Arguments& args);

// --- functions: range, namespace, dict, raise_exception, strftime_now ---

Value CallFunction(Runtime& rt, Builtin function, const Arguments& args);

// {% set space.name = value %}
void SetAttribute(Runtime& rt, NamespaceObject* space, const std::string& name, const Value& value);

}  // namespace tutti::tokenizer::jinja
