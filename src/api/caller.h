// Identity and limits of the caller of a request: plain values that a server derives from the
// authenticated principal and passes along with every request.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"

namespace tutti::api {

// Limits of one caller; absent: the operator's default applies.
struct CallerLimits {
  std::optional<int64_t> requests_per_minute = {};
  std::optional<int64_t> tokens_per_minute = {};
  std::optional<int64_t> concurrency = {};    // requests at once
  std::optional<int64_t> queued_tokens = {};  // of requests that wait
  std::optional<int64_t> daily_tokens = {};
  friend bool operator==(const CallerLimits&, const CallerLimits&) = default;
};

// Names of the limits in JSON and in the store.
inline constexpr std::array<std::pair<std::string_view, std::optional<int64_t> CallerLimits::*>, 5>
    kCallerLimits = {{{"requests_per_minute", &CallerLimits::requests_per_minute},
                      {"tokens_per_minute", &CallerLimits::tokens_per_minute},
                      {"concurrency", &CallerLimits::concurrency},
                      {"queued_tokens", &CallerLimits::queued_tokens},
                      {"daily_tokens", &CallerLimits::daily_tokens}}};

struct Caller {
  std::string tenant = {};  // unit of isolation: keys the prefix cache and fair share
  // Key, user or token in the form of auth::CredentialOf. Empty: unknown; a server with
  // authentication refuses it.
  std::string credential = {};
  // The person: a user's name or a token's subject. Empty for a key, which several may use.
  std::string user = {};
  std::vector<std::string> models = {};  // permitted models, by name or alias; empty: all
  CallerLimits limits = {};
  friend bool operator==(const Caller&, const Caller&) = default;
};

// Shared by all requests of a principal; null if callers are not identified (the library, benches).
using CallerRef = std::shared_ptr<const Caller>;

// The caller of requests that a service makes on its own behalf, such as counting tokens.
inline const CallerRef& Ourselves() {
  static const CallerRef ourselves = std::make_shared<const Caller>(
      Caller{.tenant = {}, .credential = "tutti", .models = {}, .limits = {}});
  return ourselves;
}

// State of a caller's tightest limit of each kind after this request; for x-ratelimit headers.
struct RateLimit {
  int64_t limit = 0;
  int64_t remaining = 0;  // 0..limit
  Duration reset{0};      // until the full limit is available again, without further requests
};
struct RateLimits {
  std::optional<RateLimit> requests, tokens;
};

// One limit of a caller's key or tenant, and what is left of it.
struct CallerLimitState {
  std::string_view limit;  // a name of kCallerLimits
  std::string_view of;     // "tenant" or "key"
  RateLimit state;
};

// Observer of one request, called by its TokenStream; services/admission implements it to count
// usage. All calls come from the stream's writer thread, must be cheap and must not block. An
// observer that is destroyed without End() belongs to a request that was refused.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  virtual void FirstToken() noexcept = 0;  // the first token was generated; at most once
  // Called once at the end of the request, before its reader can see the end. Returns the status
  // that the reader gets.
  virtual Status End(Status status, const Usage& usage, const Timings& timings) noexcept = 0;
};

}  // namespace tutti::api
