#include "services/responses/response.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "protocol/error.h"

namespace tutti::responses {
namespace {

constexpr size_t kMaxWatchers = 64;
constexpr size_t kEntryBytes =
    sizeof(int64_t) + 48;  // number, and an estimate of what allocations add

size_t BytesOf(const LogEntry& entry) { return kEntryBytes + protocol::EventBytes(entry.event); }

}  // namespace

int64_t ResponseLog::next() const {
  const MutexLock lock(mutex_);
  return next_;
}

void ResponseLog::Append(protocol::ResponseEvent event) {
  const MutexLock lock(mutex_);
  CHECK(!ended_) << "an event after the terminal one";
  auto entry = std::make_shared<LogEntry>();
  *entry = {next_++, std::move(event)};
  bytes_ += BytesOf(*entry);
  ended_ = entry->terminal();
  entries_.push_back(std::move(entry));
  while (bytes_ > max_bytes_ && entries_.size() > 1) {
    bytes_ -= BytesOf(*entries_.front());
    entries_.pop_front();
  }
}

void ResponseLog::Announce() {
  std::vector<std::shared_ptr<Waker>> watchers;
  {
    const MutexLock lock(mutex_);
    for (const auto& [waker, readers] : watchers_) watchers.push_back(waker);
  }
  for (const auto& waker : watchers) waker->Wake();
}

void ResponseLog::Interrupt() {
  {
    const MutexLock lock(mutex_);
    if (ended_) return;
    interrupted_ = true;
  }
  Announce();
}

Result<std::vector<ResponseLog::Entry>> ResponseLog::Read(int64_t starting_after,
                                                          size_t most) const {
  const MutexLock lock(mutex_);
  if (starting_after >= next_ - 1) return std::vector<Entry>();
  const int64_t first = next_ - static_cast<int64_t>(entries_.size());
  const int64_t from = std::max<int64_t>(starting_after, -1) + 1;
  if (from < first) {
    // Without a number: servers count from different events.
    return NotFound("expired",
                    "the first of the events asked for are no longer kept; the response is");
  }
  std::vector<Entry> read;
  for (int64_t at = from; at < next_ && read.size() < most; ++at)
    read.push_back(entries_[static_cast<size_t>(at - first)]);
  return read;
}

bool ResponseLog::ended() const {
  const MutexLock lock(mutex_);
  return ended_;
}

bool ResponseLog::interrupted() const {
  const MutexLock lock(mutex_);
  return interrupted_;
}

int64_t ResponseLog::first() const {
  const MutexLock lock(mutex_);
  return next_ - static_cast<int64_t>(entries_.size());
}

size_t ResponseLog::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

bool ResponseLog::Watch(const std::shared_ptr<Waker>& waker) {
  const MutexLock lock(mutex_);
  const auto known = watchers_.find(waker);
  if (known == watchers_.end() && watchers_.size() >= kMaxWatchers) return false;
  ++watchers_[waker];
  return true;
}

void ResponseLog::Unwatch(const std::shared_ptr<Waker>& waker) {
  const MutexLock lock(mutex_);
  const auto known = watchers_.find(waker);
  if (known != watchers_.end() && --known->second == 0) watchers_.erase(known);
}

protocol::ResponseState Response::State() const {
  const MutexLock lock(mutex_);
  return state_;
}

DroppedContext Response::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

Status FailureOf(const protocol::ResponseState& state) {
  const Status named(StatusCode::kInternal, state.error_code, state.error_message);
  return Status(protocol::FindError(named).canonical, state.error_code, state.error_message)
      .WithParam(state.error_param);
}

Status CheckPlace(const Response& response, int64_t starting_after, int64_t first) {
  if (response.again() && !response.ended()) return OkStatus();
  const int64_t last = response.log().next() - 1 - first;
  if (starting_after <= std::max<int64_t>(last, -1)) return OkStatus();
  return InvalidArgument("invalid_value",
                         last < 0 ? std::string("starting_after: there is no event yet")
                                  : "starting_after: the last event there is has number " +
                                        std::to_string(last))
      .WithParam("starting_after");
}

Result<ResponseReader> ResponseReader::Attach(std::shared_ptr<Response> response,
                                              int64_t starting_after,
                                              std::shared_ptr<Waker> waker) {
  if (waker != nullptr && !response->log().Watch(waker))
    return ResourceExhausted("tenant_concurrency", "this response has too many readers");
  return ResponseReader(std::move(response), starting_after, std::move(waker));
}

ResponseReader::~ResponseReader() {
  if (response_ != nullptr && waker_ != nullptr) response_->log().Unwatch(waker_);
}

Result<std::vector<ResponseLog::Entry>> ResponseReader::Next(size_t most) {
  const bool over = response_->log().ended();
  ASSIGN_OR_RETURN(std::vector<ResponseLog::Entry> entries, response_->log().Read(seen_, most));
  if (entries.empty()) {
    ended_ = over;
    return entries;
  }
  seen_ = entries.back()->sequence;
  ended_ = entries.back()->terminal();
  return entries;
}

}  // namespace tutti::responses
