#include "services/webhooks/webhooks.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/threads.h"
#include "protocol/json/base64.h"
#include "protocol/json/json_writer.h"

namespace tutti::webhooks {
namespace {

using background::Failure;
using background::RetryDecision;
using std::chrono::milliseconds;

constexpr double kRetryJitter = 0.1;
constexpr int64_t kKeptMs = int64_t{7} * 24 * 3'600'000;  // an event that has ended
constexpr int64_t kDropEveryMs = 60'000, kDropMost = 1000;

bool Succeeded(const Result<post::Response>& answer) {
  return answer.ok() && answer->status >= 200 && answer->status < 300;
}
Failure FailureOf(const Result<post::Response>& answer) {
  if (!answer.ok()) return Failure::kFailed;
  const int status = answer->status;
  if (status == 410) return Failure::kPermanent;
  return status == 429 || status == 502 || status == 504 ? Failure::kThrottled : Failure::kFailed;
}

}  // namespace

Result<std::string> ReadSecret(std::string_view text) {
  constexpr std::string_view kPrefix = "whsec_";
  const auto bad = [] {
    return InvalidArgument("invalid_value",
                           "a webhook's secret is whsec_ and base64 of 24 to 64 bytes, as "
                           "`echo whsec_$(openssl rand -base64 32)` makes it");
  };
  if (!text.starts_with(kPrefix)) return bad();
  text.remove_prefix(kPrefix.size());
  if (text.empty() || text.size() % 4 != 0 || text.size() > 88) return bad();
  std::vector<uint8_t> bytes(text.size());
  const int decoded = EVP_DecodeBlock(bytes.data(), reinterpret_cast<const uint8_t*>(text.data()),
                                      static_cast<int>(text.size()));
  if (decoded < 0) return bad();
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const size_t size = static_cast<size_t>(decoded) - padding;
  if (size < 24 || size > 64) return bad();
  return std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

std::string Sign(std::span<const std::string> secrets, std::string_view id, int64_t unix_s,
                 std::string_view body) {
  std::string content(id);
  content += '.' + std::to_string(unix_s) + '.';
  content += body;
  std::string signatures;
  for (const std::string& secret : secrets) {
    std::array<uint8_t, EVP_MAX_MD_SIZE> mac{};
    unsigned size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const uint8_t*>(content.data()), content.size(), mac.data(), &size);
    if (!signatures.empty()) signatures += ' ';
    signatures += "v1,";
    protocol::AppendBase64({reinterpret_cast<const char*>(mac.data()), size}, &signatures);
  }
  return signatures;
}

std::string EventBody(const Event& event) {
  std::string body;
  protocol::JsonWriter json(&body);
  json.BeginObject()
      .Member("id", event.id)
      .Member("object", "event")
      .Member("type", event.type)
      .Member("created_at", event.created_ms / 1000);
  json.Key("data").BeginObject().Member("id", event.subject).EndObject().EndObject();
  return body;
}

Webhooks::Webhooks(const Options& options, store::Store& store, std::function<int64_t()> unix_ms,
                   Logger* log)
    : options_(options),
      store_(store),
      unix_ms_(std::move(unix_ms)),
      log_(log),
      look_ups_(options_.look_ups),
      retry_({options.retries.begin(), options.retries.end()}, kRetryJitter) {
  CHECK(!options_.secrets.empty());
  for (int i = 0; i < options_.threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { Main(stop); });
}

// All threads are asked to stop before the first one is joined, so that none begins another
// attempt.
Webhooks::~Webhooks() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

Status Webhooks::Check(const std::string& url) const {
  return post::ParseTarget(url, options_.trusted).status();
}

WebhookStats Webhooks::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

void Webhooks::Main(const std::stop_token& stop) {
  NameThread("tutti-webhook");
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    if (const std::optional<Event> event = Take(); event.has_value()) {
      if (!stop.stop_requested()) Deliver(*event);
      const MutexLock lock(mutex_);
      const auto owner = busy_.find(event->owner);
      owner->second.erase(event->number);
      if (owner->second.empty()) busy_.erase(owner);
      idle_until_ = {};
      continue;
    }
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, options_.tick, [] { return false; });
  }
}

// Finds a due event: owners take turns, beginning after `last`, and the first owner with a due
// event and room for one more attempt is chosen.
Status Webhooks::FindDue(store::Database& rows, int64_t now, const std::string& last,
                         const std::map<std::string, std::set<int64_t>>& busy,
                         std::optional<Event>* due) {
  std::optional<std::string> after = last;
  for (bool wrapped = false; true;) {
    ASSIGN_OR_RETURN(const std::optional<std::string> owner, NextOwner(rows, after));
    if (wrapped && (!owner.has_value() || *owner > last)) return OkStatus();
    if (!owner.has_value()) {
      wrapped = true;
      after.reset();
      continue;
    }
    after = owner;
    const auto theirs = busy.find(*owner);
    const int64_t under_way = theirs == busy.end() ? 0 : std::ssize(theirs->second);
    if (under_way + look_ups_.late(*owner) >= options_.of_one) continue;
    ASSIGN_OR_RETURN(const std::vector<Event> events, DueEvents(rows, *owner, now, under_way + 1));
    for (const Event& event : events) {
      if (under_way > 0 && theirs->second.contains(event.number)) continue;
      *due = event;
      return OkStatus();
    }
  }
}

// Claims a due event that no other thread has claimed.
std::optional<Event> Webhooks::Take() {
  std::optional<Event> due;
  // One thread at a time reads the rows and marks an event as busy. Otherwise another thread could
  // take, deliver and release an event between the two, and it would be delivered twice.
  const MutexLock alone(taking_);
  const int64_t now = unix_ms_();
  // Copied before the rows are read: an event that is busy now may end before its row is read, but
  // none becomes busy meanwhile, since events are taken only here.
  std::map<std::string, std::set<int64_t>> busy;
  const auto looked = std::chrono::steady_clock::now();
  {
    const MutexLock lock(mutex_);
    if (looked < idle_until_) return due;
    idle_until_ = looked + options_.tick;  // until an attempt ends
    busy = busy_;
  }
  (void)store_.ReadNow([&, last = owner_last_](store::Database& rows) {
    return FindDue(rows, now, last, busy, &due);
  });
  bool drop = false;
  {
    const MutexLock lock(mutex_);
    drop = now >= next_drop_ms_;
    if (drop) next_drop_ms_ = now + kDropEveryMs;
    if (due.has_value()) {
      busy_[due->owner].insert(due->number);
      idle_until_ = {};
    }
  }
  if (due.has_value()) owner_last_ = due->owner;
  if (drop) {
    store_.Write([now](store::Database& rows) { return DropEnded(rows, now - kKeptMs, kDropMost); },
                 [](const Status&) {});
  }
  return due;
}

void Webhooks::Deliver(const Event& event) {
  // The host may have been trusted when the job was accepted, and not any more.
  Result<post::Target> target = post::ParseTarget(event.url, options_.trusted);
  if (!target.ok()) return Record(event, target.status());
  const std::string body = EventBody(event);
  const int64_t now_s = unix_ms_() / 1000;
  Record(event, post::Post(*target,
                           {{"content-type", "application/json"},
                            {"user-agent", "tutti"},
                            {"webhook-id", event.id},
                            {"webhook-timestamp", std::to_string(now_s)},
                            {"webhook-signature", Sign(options_.secrets, event.id, now_s, body)}},
                           body,
                           {.trusted = options_.trusted.contains(target->host),
                            .ca_file = options_.ca_file,
                            .timeout = options_.timeout,
                            .look_up = [&](const std::string& host, milliseconds within) {
                              return look_ups_.Find(host, event.owner, within);
                            }}));
}

void Webhooks::Record(const Event& event, const Result<post::Response>& answer) {
  const int64_t now = unix_ms_();
  const bool delivered = Succeeded(answer);
  const bool gone = !delivered && FailureOf(answer) == Failure::kPermanent;
  RetryDecision decision;
  if (!delivered) {
    std::optional<Duration> retry_after;
    if (answer.ok() && answer->retry_after) retry_after = *answer->retry_after;
    const MutexLock lock(mutex_);
    decision = retry_.Decide(FailureOf(answer), event.attempts + 1,
                             std::ssize(options_.retries) + 1, retry_after);
  }
  const bool again = decision.again();
  const std::string why = answer.ok() ? "status " + std::to_string(answer->status)
                                      : answer.status().message().substr(0, 200);
  // If the disk refuses the write, the event stays due and is sent again with the same id.
  (void)store_.WriteNow([&](store::Database& rows) -> Status {
    if (delivered) return MarkDelivered(rows, event.number, now);
    if (again) {
      return MarkRetry(rows, event.number,
                       now + std::chrono::duration_cast<milliseconds>(decision.wait).count(), why);
    }
    RETURN_IF_ERROR(MarkFailed(rows, event.number, now, why));
    return gone ? MarkGone(rows, event.url, now) : OkStatus();
  });
  {
    const MutexLock lock(mutex_);
    ++(delivered ? stats_.delivered : again ? stats_.retried : stats_.failed);
  }
  if (log_ == nullptr || delivered) return;
  log_->Warn(again ? "webhook.retry" : "webhook.failed",
             {{"event", event.id}, {"subject", event.subject}, {"why", why}});
}

}  // namespace tutti::webhooks
