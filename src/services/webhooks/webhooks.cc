#include "services/webhooks/webhooks.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

#include "base/thread_name.h"
#include "services/webhooks/signature.h"
#include "wire/json_writer.h"

namespace tutti::webhooks {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kKeptMs = int64_t{7} * 24 * 3'600'000;  // an event that has ended
constexpr int64_t kDropEveryMs = 60'000, kDropMost = 1000;

bool Succeeded(int status) { return status >= 200 && status < 300; }
// They ask for time, not for another form.
bool AsksForTime(int status) { return status == 429 || status == 502 || status == 504; }

}  // namespace

std::string EventBody(const Event& event) {
  std::string body;
  wire::JsonWriter json(&body);
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
      random_(std::random_device{}()) {
  CHECK(!options_.secrets.empty());
  for (int i = 0; i < options_.threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { Main(stop); });
}

// All are told before the first is waited for: none begins another attempt meanwhile.
Webhooks::~Webhooks() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

Status Webhooks::Check(const std::string& url) const {
  return ParseTarget(url, options_.trusted).status();
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

// One that no other thread has.
std::optional<Event> Webhooks::Take() {
  std::optional<Event> due;
  // One at a time, from what is read to what is busy: what another thread has read meanwhile may
  // have been taken, told and given back before it is looked at here.
  const MutexLock alone(taking_);
  const int64_t now = unix_ms_();
  // Who was busy before the rows were read may have ended since, with its row read as it was. All
  // that is busy then is among these, as it is taken here alone.
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
  // What was trusted when it was asked for may not be any more.
  Result<Target> target = ParseTarget(event.url, options_.trusted);
  if (!target.ok()) return Note(event, target.status());
  const std::string body = EventBody(event);
  const int64_t now_s = unix_ms_() / 1000;
  Note(event, Post(*target,
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

milliseconds Webhooks::WaitBefore(size_t attempt) {
  const MutexLock lock(mutex_);
  const auto wait = static_cast<double>(options_.retries[attempt].count());
  return milliseconds(static_cast<int64_t>(wait * (0.9 + random_.Uniform() / 5)));
}

void Webhooks::Note(const Event& event, const Result<PostAnswer>& answer) {
  const int64_t now = unix_ms_();
  const auto attempt = static_cast<size_t>(event.attempts);
  const bool delivered = answer.ok() && Succeeded(answer->status);
  const bool gone = answer.ok() && answer->status == 410;
  const bool last = attempt >= options_.retries.size();
  const std::string why = answer.ok() ? "status " + std::to_string(answer->status)
                                      : answer.status().message().substr(0, 200);
  milliseconds wait{0};
  if (!delivered && !gone && !last) {
    wait = WaitBefore(attempt);
    // An endpoint that asks for time gets at least the delay of the next step.
    if (answer.ok() && AsksForTime(answer->status) && attempt + 1 < options_.retries.size())
      wait = WaitBefore(attempt + 1);
    if (answer.ok() && answer->retry_after)
      wait = std::max<milliseconds>(wait, *answer->retry_after);
  }
  // If the disk refuses the write, the event stays due and is sent again with the same id.
  (void)store_.WriteNow([&](store::Database& rows) -> Status {
    if (delivered) return MarkDelivered(rows, event.number, now);
    if (!gone && !last) return MarkRetry(rows, event.number, now + wait.count(), why);
    RETURN_IF_ERROR(MarkFailed(rows, event.number, now, why));
    return gone ? MarkGone(rows, event.url, now) : OkStatus();
  });
  {
    const MutexLock lock(mutex_);
    ++(delivered ? stats_.delivered : gone || last ? stats_.failed : stats_.retried);
  }
  if (log_ == nullptr || delivered) return;
  log_->Warn(gone || last ? "webhook.failed" : "webhook.retry",
             {{"event", event.id}, {"subject", event.subject}, {"why", why}});
}

}  // namespace tutti::webhooks
