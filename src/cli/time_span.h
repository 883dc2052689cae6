// Spans of time as people write them: "90s", "45m", "12h", "30d", "8w"; points in time as tables
// show them. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::cli {

// In seconds; nothing for anything but a whole number above 0 with one of s, m, h, d, w behind it,
// and for more than a hundred years.
std::optional<int64_t> ParseSpan(std::string_view text);

// Seconds since 1970 as "2026-01-31 12:00" in UTC.
std::string DateText(int64_t time_s);

}  // namespace tutti::cli
