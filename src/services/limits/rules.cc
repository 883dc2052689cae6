#include "services/limits/rules.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace tutti::limits {
namespace {

struct KindRow {
  LimitKind kind;
  std::string_view name, type, sentence;
};
constexpr std::array<KindRow, kLimitKinds> kKinds = {
    {{LimitKind::kRequests, "requests_per_minute", "requests", "requests a minute"},
     {LimitKind::kWindow, "window", "requests", "requests in its window of time"},
     {LimitKind::kTokens, "tokens_per_minute", "tokens", "tokens a minute"},
     {LimitKind::kConcurrency, "concurrency", "concurrency", "requests at a time"},
     {LimitKind::kQueuedTokens, "queued_tokens", "tokens", "tokens that wait"},
     {LimitKind::kDayTokens, "tokens_per_day", "tokens", "tokens a day"}}};
constexpr std::array<std::string_view, kSubjectKinds> kSubjects = {"tenant", "key", "model",
                                                                   "session", "address"};

const KindRow& RowOf(LimitKind kind) { return kKinds[static_cast<size_t>(kind)]; }

void Tighten(std::optional<LimitView>* view, const LimitView& limit) {
  const bool tighter = !view->has_value() || limit.remaining < (*view)->remaining ||
                       (limit.remaining == (*view)->remaining && limit.reset > (*view)->reset);
  if (tighter) *view = limit;
}

}  // namespace

std::string_view NameOf(LimitKind kind) { return RowOf(kind).name; }
std::string_view TypeOf(LimitKind kind) { return RowOf(kind).type; }
std::string_view NameOf(SubjectKind kind) { return kSubjects[static_cast<size_t>(kind)]; }

Status ToStatus(const Refusal& refusal) {
  const std::string limit =
      std::to_string(refusal.most) + " " + std::string(RowOf(refusal.limit).sentence) +
      " of this " +
      (refusal.subject == SubjectKind::kKey ? "key or user" : std::string(NameOf(refusal.subject)));
  if (refusal.retry_after == Duration::max()) {
    return ResourceExhausted("request_exceeds_limit",
                             "this request asks for " + std::to_string(refusal.asked) +
                                 " and can never pass the limit of " + limit)
        .WithExcess(refusal.asked, refusal.most);
  }
  if (refusal.unreachable) {
    return Unavailable("overloaded", "what is left of the limit of " + limit +
                                         ", which several servers share, cannot be told now")
        .WithRetryAfter(std::chrono::ceil<std::chrono::milliseconds>(refusal.retry_after));
  }
  const bool quota = refusal.limit == LimitKind::kDayTokens;
  return ResourceExhausted(quota ? "insufficient_quota" : "rate_limit_exceeded",
                           "the limit of " + limit +
                               " is reached: " + std::to_string(refusal.remaining) + " left, " +
                               std::to_string(refusal.asked) + " asked for")
      .WithExcess(refusal.asked, refusal.remaining)
      .WithRetryAfter(std::chrono::ceil<std::chrono::milliseconds>(refusal.retry_after));
}

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
