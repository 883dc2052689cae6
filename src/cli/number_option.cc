#include "cli/number_option.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

#include "base/log.h"

namespace tutti::cli {
namespace {

template <typename T>
bool Parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

template <typename T>
std::string NumberFault(std::string_view text, T min, T max) {
  T value{};
  bool good = Parse(text, value) && value >= min && value <= max;
  if constexpr (!std::numeric_limits<T>::is_integer) good = good && std::isfinite(value);
  if (good) return "";
  return fmt::format("needs a {} from {} to {}, not \"{}\"",
                     std::numeric_limits<T>::is_integer ? "whole number" : "number", min, max,
                     LogEscape(text.substr(0, 64)));
}

template <typename T>
T ToNumber(std::string_view text) {
  T value{};
  return Parse(text, value) ? value : T{};
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
