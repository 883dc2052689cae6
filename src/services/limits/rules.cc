#include "services/limits/rules.h"

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

Status CheckRule(LimitKind kind, int64_t limit, int64_t most) {
  if (limit >= 0 && limit <= most) return OkStatus();
  return InvalidArgument("invalid_value", std::string(NameOf(kind)) + " must be 0 (no limit) to " +
                                              std::to_string(most))
      .WithParam(std::string(NameOf(kind)));
}

}  // namespace

std::string_view NameOf(LimitKind kind) { return RowOf(kind).name; }
std::string_view TypeOf(LimitKind kind) { return RowOf(kind).type; }
std::string_view NameOf(SubjectKind kind) { return kSubjects[static_cast<size_t>(kind)]; }

Status CheckRules(const Rules& rules) {
  RETURN_IF_ERROR(CheckRule(LimitKind::kRequests, rules.requests_per_minute, kMaxUnits));
  RETURN_IF_ERROR(CheckRule(LimitKind::kTokens, rules.tokens_per_minute, kMaxUnits));
  RETURN_IF_ERROR(CheckRule(LimitKind::kConcurrency, rules.concurrency, kMaxUnits));
  RETURN_IF_ERROR(CheckRule(LimitKind::kQueuedTokens, rules.queued_tokens, kMaxUnits));
  RETURN_IF_ERROR(CheckRule(LimitKind::kDayTokens, rules.tokens_per_day, kMaxUnits));
  RETURN_IF_ERROR(CheckRule(LimitKind::kWindow, rules.window.limit, kMaxInWindow));
  if (rules.window.period <= Duration(0) || rules.window.period > std::chrono::hours(24)) {
    return InvalidArgument("invalid_value", "a window must be longer than 0 and at most a day")
        .WithParam("window");
  }
  return OkStatus();
}

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

}  // namespace tutti::limits
