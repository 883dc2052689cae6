// Who asks, as far as the services behind the waist care, and what they tell of it: plain values
// that a door makes of its principal and hands on with every request.
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

// What a caller may use up; absent: no limit of its own.
struct CallerLimits {
  std::optional<int64_t> requests_per_minute = {};
  std::optional<int64_t> tokens_per_minute = {};
  std::optional<int64_t> concurrency = {};    // requests at once
  std::optional<int64_t> queued_tokens = {};  // of requests that wait
  std::optional<int64_t> daily_tokens = {};
  friend bool operator==(const CallerLimits&, const CallerLimits&) = default;
};

// Their names, wherever they are written.
inline constexpr std::array<std::pair<std::string_view, std::optional<int64_t> CallerLimits::*>, 5>
    kCallerLimits = {{{"requests_per_minute", &CallerLimits::requests_per_minute},
                      {"tokens_per_minute", &CallerLimits::tokens_per_minute},
                      {"concurrency", &CallerLimits::concurrency},
                      {"queued_tokens", &CallerLimits::queued_tokens},
                      {"daily_tokens", &CallerLimits::daily_tokens}}};

struct Caller {
  std::string tenant = {};  // unit of isolation: keys the prefix cache and fair share
  // Which key, user or token it was, as auth::CredentialOf writes it. Empty: nobody said, which a
  // server with callers refuses.
  std::string credential = {};
  // The person that is: a user's name, a token's subject. Empty where it may be many (a key).
  std::string user = {};
  std::vector<std::string> models = {};  // that it may use, by name or alias; empty: all
  CallerLimits limits = {};
  friend bool operator==(const Caller&, const Caller&) = default;
};

// Shared by all requests of a principal; null where there are no callers (the library, benches).
using CallerRef = std::shared_ptr<const Caller>;

// What a service asks on its own behalf: how many tokens a text has. Generates nothing.
const CallerRef& Ourselves();

// What is left of the tightest of each kind of a caller's limits, after this request was looked at.
struct RateLimit {
  int64_t limit = 0;
  int64_t remaining = 0;  // 0..limit
  Duration reset{0};      // until all of it is there again, if nobody takes any
};
struct RateLimits {
  std::optional<RateLimit> requests, tokens;
};

// Told how one request goes, by its stream: for whoever counts what is used. On the writer's
// thread; cheap, and never blocks. Destroyed without End(): the request was refused.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  virtual void FirstToken() noexcept = 0;  // it waits no longer; at most once
  // The end, whatever it is, before its reader can see it; gives back what the reader is told.
  // Once.
  virtual Status End(Status status, const Usage& usage, const Timings& timings) noexcept = 0;
};

}  // namespace tutti::api
