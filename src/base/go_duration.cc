#include "base/go_duration.h"

#include <array>
#include <charconv>
#include <utility>

namespace tutti {
namespace {

constexpr double kMostSeconds = 100.0 * 365 * 24 * 3600;

// "ms" before "m": the longest that fits.
constexpr std::array<std::pair<std::string_view, double>, 8> kUnits = {{{"ns", 1e-9},
                                                                        {"us", 1e-6},
                                                                        {"\xC2\xB5s", 1e-6},
                                                                        {"\xCE\xBCs", 1e-6},
                                                                        {"ms", 1e-3},
                                                                        {"s", 1},
                                                                        {"m", 60},
                                                                        {"h", 3600}}};

// Takes "1.5" from the front.
std::optional<double> TakeNumber(std::string_view* text) {
  size_t digits = 0, points = 0, at = 0;
  for (; at < text->size() && (((*text)[at] >= '0' && (*text)[at] <= '9') || (*text)[at] == '.');
       ++at)
    ++((*text)[at] == '.' ? points : digits);
  if (digits == 0 || points > 1) return std::nullopt;
  double number = 0;
  // A number too large for a double is infinite.
  if (std::from_chars(text->data(), text->data() + at, number).ec == std::errc::result_out_of_range)
    number = kMostSeconds * 1e9;
  text->remove_prefix(at);
  return number;
}

}  // namespace

std::optional<Duration> ParseGoDuration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return Duration::zero();
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  while (!text.empty()) {
    const std::optional<double> number = TakeNumber(&text);
    if (!number.has_value()) return std::nullopt;
    const std::pair<std::string_view, double>* unit = nullptr;
    for (const auto& each : kUnits) {
      if (text.starts_with(each.first) &&
          (unit == nullptr || each.first.size() > unit->first.size()))
        unit = &each;
    }
    if (unit == nullptr) return std::nullopt;
    seconds += *number * unit->second;
    text.remove_prefix(unit->first.size());
  }
  if (seconds > kMostSeconds) return negative ? -Duration::max() : Duration::max();
  return FromSeconds(negative ? -seconds : seconds);
}

}  // namespace tutti
