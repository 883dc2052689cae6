#include "api/request_trace.h"

#include "api/token_stream.h"

namespace tutti::api {

std::string_view WaitReasonName(WaitReason reason) {
  constexpr std::string_view kNames[] = {"none",    "next_step",   "max_num_seqs", "kv_blocks",
                                         "behind",  "fair_share",  "priority",     "preempted",
                                         "sibling", "same_prompt", "prefix_load",  "reader",
                                         "grant",   "failed_step", "batch_window"};
  static_assert(std::size(kNames) == kWaitReasons);
  return kNames[static_cast<size_t>(reason)];
}

std::string_view TraceEventName(TraceEvent::Kind kind) {
  constexpr std::string_view kNames[] = {"received",    "parsed", "written", "accepted",
                                         "submitted",   "waits",  "runs",    "prefill",
                                         "first_token", "ended"};
  static_assert(std::size(kNames) == static_cast<size_t>(TraceEvent::Kind::kEnded) + 1);
  return kNames[static_cast<size_t>(kind)];
}

bool RequestTrace::Cancel() const {
  const std::span<const TraceEvent> events = engine().events();
  if (!events.empty() && events.back().kind == TraceEvent::Kind::kEnded) return false;
  const std::shared_ptr<Cancellable> request = request_.Copy().lock();
  if (request == nullptr) return false;
  request->Cancel();
  return true;
}

std::vector<uint64_t> RequestTrace::LastSteps() const {
  const uint64_t count = steps();
  std::vector<uint64_t> numbers;
  for (uint64_t i = count > kLastSteps ? count - kLastSteps : 0; i < count; ++i)
    numbers.push_back(last_steps_[i % kLastSteps].load(std::memory_order_relaxed));
  // The engine may have overwritten the oldest ones meanwhile.
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::shared_ptr<RequestTrace> RequestTraces::Begin(RequestTrace::Head head) {
  auto trace = std::make_shared<RequestTrace>(std::move(head));
  std::shared_ptr<RequestTrace> dropped;  // freed without the lock
  const MutexLock lock(mutex_);
  if (kept_.size() >= kKept) {
    // Nobody but this list refers to the trace of a request that has ended.
    auto oldest = std::find_if(kept_.begin(), kept_.end(),
                               [](const auto& kept) { return kept.use_count() == 1; });
    if (oldest == kept_.end()) oldest = kept_.begin();
    dropped = std::move(*oldest);
    kept_.erase(oldest);
  }
  kept_.push_back(trace);
  return trace;
}

std::vector<std::shared_ptr<const RequestTrace>> RequestTraces::Find(std::string_view id) const {
  std::vector<std::shared_ptr<const RequestTrace>> found;
  const MutexLock lock(mutex_);
  for (const auto& trace : kept_) {
    if (trace->head().id == id) found.push_back(trace);
  }
  return found;
}

size_t RequestTraces::size() const {
  const MutexLock lock(mutex_);
  return kept_.size();
}

}  // namespace tutti::api
