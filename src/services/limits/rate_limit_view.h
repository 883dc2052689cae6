// The limits shown to a caller: the x-ratelimit-* headers of an answer, or the values that a
// refusal needs. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "services/limits/rules.h"

namespace tutti::limits {

struct LimitView {
  int64_t limit = 0;
  int64_t remaining = 0;  // 0..limit
  Duration reset{0};      // until the limit is full again, without further use
};

// The tightest of all subjects' limits: least remaining, then longest reset.
struct RateLimitView {
  std::optional<LimitView> requests, tokens;  // none: no such limit
  std::optional<Refusal> refused;             // set if a limit refused the request

  void LowerRequests(const LimitView& limit);
  void LowerTokens(const LimitView& limit);
};

// The value of an x-ratelimit-reset-* header: "17ms", "7.66s", "6m0s", "1h2m3s". Rounded up, to
// milliseconds below a minute and to seconds above.
std::string ResetText(Duration reset);

}  // namespace tutti::limits
