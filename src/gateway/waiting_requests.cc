#include "gateway/waiting_requests.h"

#include <fmt/format.h>

#include <iterator>

namespace tutti::gateway {

void WaitControl::Cancel() noexcept {
  cancelled_.store(true, std::memory_order_release);
  std::shared_ptr<api::Cancellable> control;
  {
    const MutexLock lock(mutex_);
    control = control_;
  }
  if (control != nullptr) control->Cancel();
}

void WaitControl::Attach(std::shared_ptr<api::Cancellable> control) {
  {
    const MutexLock lock(mutex_);
    control_ = control;
  }
  // A cancel that set the flag before the lock was taken did not see the control.
  if (cancelled()) control->Cancel();
}

Status WaitingRequests::Add(Entry entry) {
  if (entries_.size() >= limits_.requests || bytes_ + entry.bytes > limits_.bytes) {
    return Unavailable("queue_full", fmt::format("{} requests wait for models that are being "
                                                 "loaded, limit {}; retry later",
                                                 entries_.size(), limits_.requests));
  }
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  return OkStatus();
}

template <typename Leaves>
std::vector<WaitingRequests::Entry> WaitingRequests::TakeIf(const Leaves& leaves) {
  std::vector<Entry> taken;
  std::deque<Entry> kept;
  for (Entry& entry : entries_) {
    if (leaves(entry)) {
      bytes_ -= entry.bytes;
      taken.push_back(std::move(entry));
    } else {
      kept.push_back(std::move(entry));
    }
  }
  entries_ = std::move(kept);
  return taken;
}

std::vector<WaitingRequests::Entry> WaitingRequests::Take(std::string_view model) {
  return TakeIf([&](const Entry& entry) { return entry.model == model; });
}

std::vector<WaitingRequests::Entry> WaitingRequests::TakeAll() {
  return TakeIf([](const Entry&) { return true; });
}

std::vector<WaitingRequests::Ended> WaitingRequests::TakeEnded(TimePoint now) {
  std::vector<Ended> ended;
  const auto cancelled = [](const Entry& entry) {
    return entry.control != nullptr && entry.control->cancelled();
  };
  const auto leaves = [&](const Entry& entry) {
    return cancelled(entry) || entry.deadline <= now || now - entry.since >= limits_.time;
  };
  for (Entry& entry : TakeIf(leaves)) {
    Status why;
    if (cancelled(entry)) {
      why = Cancelled();
    } else if (entry.deadline <= now) {
      why = Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                   "the deadline passed before the model was loaded");
    } else {
      why = Unavailable("model_loading",
                        fmt::format("model {} was not loaded within {:.0f} s; retry later",
                                    entry.model, ToSeconds(limits_.time)));
    }
    ended.emplace_back(std::move(entry), std::move(why));
  }
  return ended;
}

void WaitingRequests::List(TimePoint now, api::LiveState* out) const {
  out->model_waits_total = static_cast<int>(entries_.size());
  for (const Entry& entry : entries_) {
    if (out->model_waits.size() == api::LiveState::kMaxModelWaits) return;
    out->model_waits.push_back({entry.request_id, entry.model, now - entry.since});
  }
}

}  // namespace tutti::gateway
