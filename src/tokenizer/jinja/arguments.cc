#include "tokenizer/jinja/arguments.h"

#include "base/check.h"
#include "tokenizer/jinja/operations.h"

namespace tutti::tokenizer::jinja {

ArgReader::ArgReader(Runtime& rt, const Arguments& args, std::string_view callee,
                     std::initializer_list<std::string_view> parameters)
    : rt_(rt), callee_(callee) {
  CHECK(parameters.size() <= kMaxParameters);
  size_t count = 0;
  for (const std::string_view name : parameters) names_[count++] = name;
  if (args.positional.size() > count) {
    rt_.Fail(callee_ + " takes at most " + std::to_string(count) + " arguments");
    return;
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < count && names_[i] != name) ++i;
    if (i == count || values_[i] != nullptr) {
      rt_.Fail(callee_ + ": unexpected or repeated argument");
      return;
    }
    values_[i] = &value;
  }
}

Value ArgReader::Require(size_t i) const {
  if (Has(i)) return *values_[i];
  return rt_.Fail(callee_ + ": argument '" + std::string(names_[i]) + "' is missing");
}

int64_t ArgReader::Int(size_t i, int64_t otherwise) const {
  if (!Has(i) || values_[i]->is_none()) return otherwise;
  if (values_[i]->is_int() || values_[i]->is_bool()) return ToInteger(*values_[i]);
  rt_.FailType("use as a whole number", *values_[i]);
  return otherwise;
}

bool ArgReader::Bool(size_t i, bool otherwise) const {
  return Has(i) ? Truthy(*values_[i]) : otherwise;
}

std::optional<Text> ArgReader::String(size_t i) const {
  if (!Has(i) || values_[i]->is_none()) return std::nullopt;
  if (values_[i]->is_string()) {
    if (!rt_.SpendBytes(values_[i]->text().size())) return std::nullopt;
    return values_[i]->text();
  }
  rt_.FailType("use as text", *values_[i]);
  return std::nullopt;
}

}  // namespace tutti::tokenizer::jinja
