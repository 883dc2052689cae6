// Matches the arguments of a call with parameter names, as Python does.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

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

}  // namespace tutti::tokenizer::jinja
