#include "cli/number_option.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/ascii.h"
#include "base/log.h"

namespace tutti::cli {

template <typename T>
std::string NumberFault(std::string_view text, T min, T max) {
  const std::optional<T> value = ParseNumber<T>(text);
  bool good = value.has_value() && *value >= min && *value <= max;
  if constexpr (!std::numeric_limits<T>::is_integer) good = good && std::isfinite(*value);
  if (good) return "";
  return fmt::format("needs a {} from {} to {}, not \"{}\"",
                     std::numeric_limits<T>::is_integer ? "whole number" : "number", min, max,
                     LogEscape(text.substr(0, 64)));
}

template <typename T>
T ToNumber(std::string_view text) {
  return ParseNumber<T>(text).value_or(T{});
}

template std::string NumberFault(std::string_view, int, int);
template std::string NumberFault(std::string_view, int64_t, int64_t);
template std::string NumberFault(std::string_view, uint64_t, uint64_t);
template std::string NumberFault(std::string_view, double, double);
template int ToNumber(std::string_view);
template int64_t ToNumber(std::string_view);
template uint64_t ToNumber(std::string_view);
template double ToNumber(std::string_view);

}  // namespace tutti::cli
