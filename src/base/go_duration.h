// Durations as Go writes them: "300ms", "5m", "1h30m", "-1s", "0". Pure.
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"

namespace tutti {

// The format of Go's time.ParseDuration: an optional sign, then decimal numbers with a unit each
// (ns, us, ms, s, m, h), or "0". More than 100 years are Duration::max(), or its negative. nullopt
// for any other text.
std::optional<Duration> ParseGoDuration(std::string_view text);

}  // namespace tutti
