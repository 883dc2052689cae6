#include "cli/time_span.h"

#include <array>
#include <charconv>
#include <ctime>
#include <utility>

namespace tutti::cli {
namespace {

constexpr int64_t kMaxSpanS = int64_t{36500} * 86400;
constexpr std::array<std::pair<char, int64_t>, 5> kUnits = {
    {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}}};

}  // namespace

std::optional<int64_t> ParseSpan(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  int64_t number = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 1) return std::nullopt;
  for (const auto& [letter, seconds] : kUnits) {
    if (letter == text.back() && number <= kMaxSpanS / seconds) return number * seconds;
  }
  return std::nullopt;
}

std::string DateText(int64_t time_s) {
  const auto time = static_cast<std::time_t>(time_s);
  std::tm parts{};
  std::array<char, 32> text{};
  if (gmtime_r(&time, &parts) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts)};
}

}  // namespace tutti::cli
