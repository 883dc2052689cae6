// Rules: the limits of one subject (tenant, key, model, session, address). Refusal: the limit that
// refused a request. RateLimitView: the limits shown to a caller. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "services/limits/rate.h"

namespace tutti::limits {

// 0: no limit; each is at most kMaxUnits, `window.limit` kMaxInWindow. Tokens are uncached prompt
// tokens plus output tokens.
struct Rules {
  int64_t requests_per_minute = 0;  // also the burst size of an idle subject
  int64_t tokens_per_minute = 0;    // also the burst size of an idle subject
  int64_t concurrency = 0;          // requests from their reservation to their settlement
  int64_t queued_tokens = 0;        // of requests that wait for their first turn
  int64_t tokens_per_day = 0;       // of requests that began on the same day, by UTC
  Window window = {};               // of requests: exact sliding window
  friend bool operator==(const Rules&, const Rules&) = default;
};

enum class LimitKind : uint8_t {
  kRequests,      // requests_per_minute
  kWindow,        // window
  kTokens,        // tokens_per_minute
  kConcurrency,   // concurrency
  kQueuedTokens,  // queued_tokens
  kDayTokens,     // tokens_per_day
};
inline constexpr int kLimitKinds = 6;

std::string_view NameOf(LimitKind kind);  // "tokens_per_minute"
// The `type` of an error body: "requests", "tokens" or "concurrency".
std::string_view TypeOf(LimitKind kind);

enum class SubjectKind : uint8_t { kTenant, kKey, kModel, kSession, kAddress };
inline constexpr int kSubjectKinds = 5;

std::string_view NameOf(SubjectKind kind);  // "tenant"

struct Refusal {
  SubjectKind subject = SubjectKind::kTenant;
  LimitKind limit = LimitKind::kRequests;
  int64_t most = 0;          // as the rule says
  int64_t asked = 0;         // by this request
  int64_t remaining = 0;     // 0..most
  Duration reset{0};         // until the limit is full again, without further use; unknown: 0
  Duration retry_after{0};   // until this request would pass, without other use; never: max()
  bool unreachable = false;  // the remainder is unknown: the shared store is unreachable
};

// Status for clients, with the numbers and retry-after: rate_limit_exceeded; insufficient_quota
// (daily tokens used up); request_exceeds_limit (the request can never pass); overloaded (the store
// of shared quotas is unreachable).
Status ToStatus(const Refusal& refusal);

// One limit as shown to a caller: in the x-ratelimit-* headers of an answer, or in a refusal.
struct LimitView {
  int64_t limit = 0;
  int64_t remaining = 0;  // 0..limit
  Duration reset{0};      // until the limit is full again, without further use
};

// One limit of a subject, by its kind.
struct KindView {
  LimitKind kind = LimitKind::kRequests;
  LimitView view;
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
