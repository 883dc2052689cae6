// Options whose value is a number: read as a whole, in decimal, and within their range, or refused
// as a bad value (exit 78). CLI11 by itself takes the nearest number that fits, hexadecimal and
// octal.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli {

// The error of `text` as a number within [min, max], or "". T: int, int64_t, uint64_t, double.
template <typename T>
std::string NumberFault(std::string_view text, T min, T max);
// The number of a text without fault; 0 for any other.
template <typename T>
T ToNumber(std::string_view text);

extern template std::string NumberFault(std::string_view, int, int);
extern template std::string NumberFault(std::string_view, int64_t, int64_t);
extern template std::string NumberFault(std::string_view, uint64_t, uint64_t);
extern template std::string NumberFault(std::string_view, double, double);
extern template int ToNumber(std::string_view);
extern template int64_t ToNumber(std::string_view);
extern template uint64_t ToNumber(std::string_view);
extern template double ToNumber(std::string_view);

// Declares the option; `value` outlives the parser and keeps its default unless the option is
// given.
template <typename T>
CLI::Option* AddNumber(CLI::App& command, const std::string& names, T& value, T min, T max,
                       const std::string& help) {
  return command
      .add_option_function<std::string>(
          names, [&value](const std::string& text) { value = ToNumber<T>(text); }, help)
      ->check([min, max](const std::string& text) { return NumberFault<T>(text, min, max); })
      ->type_name(std::numeric_limits<T>::is_integer ? "N" : "X");
}

// The same for a list: --batch 1,4,8.
template <typename T>
CLI::Option* AddNumbers(CLI::App& command, const std::string& names, std::vector<T>& values, T min,
                        T max, const std::string& help) {
  return command
      .add_option_function<std::vector<std::string>>(
          names,
          [&values](const std::vector<std::string>& texts) {
            values.clear();
            for (const std::string& text : texts) values.push_back(ToNumber<T>(text));
          },
          help)
      ->check([min, max](const std::string& text) { return NumberFault<T>(text, min, max); })
      ->delimiter(',')
      ->type_name(std::numeric_limits<T>::is_integer ? "N,..." : "X,...");
}

}  // namespace tutti::cli
