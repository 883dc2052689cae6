#include "services/limits/rate_limit_view.h"

#include <algorithm>
#include <chrono>

namespace tutti::limits {
namespace {

void Tighten(std::optional<LimitView>* view, const LimitView& limit) {
  const bool tighter = !view->has_value() || limit.remaining < (*view)->remaining ||
                       (limit.remaining == (*view)->remaining && limit.reset > (*view)->reset);
  if (tighter) *view = limit;
}

}  // namespace

void RateLimitView::LowerRequests(const LimitView& limit) { Tighten(&requests, limit); }
void RateLimitView::LowerTokens(const LimitView& limit) { Tighten(&tokens, limit); }

std::string ResetText(Duration reset) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  reset = std::clamp<Duration>(reset, Duration(0), std::chrono::hours(24 * 365));
  if (reset == Duration(0)) return "0s";
  const int64_t ms = std::chrono::ceil<milliseconds>(reset).count();
  if (ms < 1000) return std::to_string(ms) + "ms";
  if (ms < 60'000) {
    std::string digits = std::to_string(ms % 1000 + 1000).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    return std::to_string(ms / 1000) + (digits.empty() ? "" : "." + digits) + "s";
  }
  const int64_t s = std::chrono::ceil<seconds>(reset).count();
  const std::string rest = std::to_string(s / 60 % 60) + "m" + std::to_string(s % 60) + "s";
  return s < 3600 ? rest : std::to_string(s / 3600) + "h" + rest;
}

}  // namespace tutti::limits
