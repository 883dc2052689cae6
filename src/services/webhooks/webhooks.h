// Webhooks: sends an event to a URL that the client has chosen when its job has ended. Follows
// Standard Webhooks 1.0.0: small signed events from an outbox in the store, retried for days.
//
// An event:
//             Take()             Post(): a status of 2xx
//   pending --------> in flight -------------------------> delivered
//      ^                  |
//      |                  +--- no attempts left, or 410 --> failed (callback_failed)
//      +--- Record(): another attempt follows after the backoff
//
// "In flight" is known to this process only. After its death the event is still pending, and is
// posted again with the same id. A 410 also fails all other pending events of the URL.
//
// Owns threads for the HTTP requests. Owners take turns, and each owner may have only a few
// attempts in progress, so that unreachable URLs of one owner do not delay the events of others.
// The store must outlive it; the destructor waits for attempts in progress, at most 15 s.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/background/retry.h"
#include "services/post/post.h"
#include "services/post/target.h"
#include "services/webhooks/webhook_rows.h"
#include "store/store.h"

namespace tutti::webhooks {

// --- signatures: HMAC-SHA256 over "{id}.{timestamp}.{body}" (standardwebhooks.com), with one
// secret, or with several during a secret rotation; pure ---

// The bytes of "whsec_" and base64 of 24 to 64 bytes. Errors: invalid_value.
Result<std::string> ReadSecret(std::string_view text);

// The value of webhook-signature: "v1,BASE64" under each secret, separated by blanks.
std::string Sign(std::span<const std::string> secrets, std::string_view id, int64_t unix_s,
                 std::string_view body);

// --- deliveries ---

// Delays between the first attempt and the ninth; a tenth more or less.
inline constexpr std::array<std::chrono::seconds, 8> kRetries = {
    std::chrono::seconds(5), std::chrono::minutes(5), std::chrono::minutes(30),
    std::chrono::hours(2),   std::chrono::hours(5),   std::chrono::hours(10),
    std::chrono::hours(14),  std::chrono::hours(20)};

struct WebhookStats {
  uint64_t delivered = 0, retried = 0, failed = 0;
};

class Webhooks {
 public:
  struct Options {
    std::vector<std::string> secrets;  // bytes; the first is the newest; at least one
    std::set<std::string> trusted;     // hosts whose addresses may be private
    std::string ca_file;
    std::vector<std::chrono::milliseconds> retries{kRetries.begin(), kRetries.end()};
    std::chrono::milliseconds timeout{15'000};
    std::chrono::milliseconds tick{1'000};  // between searches for due events
    int threads = 16;                       // concurrent attempts
    int of_one = 2;                         // of one owner, with its abandoned look-ups
    post::LookUps::Options look_ups;
  };
  // `unix_ms`: the wall clock. `log` may be null. All outlive it.
  Webhooks(const Options& options, store::Store& store, std::function<int64_t()> unix_ms,
           Logger* log);
  ~Webhooks();

  // OK if a client may use this URL. Errors: invalid_value.
  Status Check(const std::string& url) const;
  WebhookStats stats() const;

 private:
  void Main(const std::stop_token& stop);
  std::optional<Event> Take();
  Status FindDue(store::Database& rows, int64_t now, const std::string& last,
                 const std::map<std::string, std::set<int64_t>>& busy, std::optional<Event>* due);
  void Deliver(const Event& event);
  void Record(const Event& event, const Result<post::Response>& answer);

  const Options options_;
  store::Store& store_;
  const std::function<int64_t()> unix_ms_;
  Logger* const log_;
  post::LookUps look_ups_;
  Mutex taking_;                                // locked before mutex_
  std::string owner_last_ GUARDED_BY(taking_);  // whose event was taken last
  mutable Mutex mutex_;
  std::map<std::string, std::set<int64_t>> busy_ GUARDED_BY(mutex_);  // events under way, by owner
  std::chrono::steady_clock::time_point idle_until_ GUARDED_BY(mutex_);  // nothing was due
  int64_t next_drop_ms_ GUARDED_BY(mutex_) = 0;
  background::RetryPolicy retry_ GUARDED_BY(mutex_);
  WebhookStats stats_ GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

// The body of the request.
std::string EventBody(const Event& event);

}  // namespace tutti::webhooks
