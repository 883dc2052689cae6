#include "services/background/queue_runner.h"

#include <future>

namespace tutti::background {
namespace {

constexpr size_t kMaxTasks = 16384;

}  // namespace

QueueRunner::QueueRunner(store::Store& store, const Clock& clock, std::function<int64_t()> unix_ms,
                         const char* thread)
    : store_(store),
      clock_(clock),
      unix_ms_(std::move(unix_ms)),
      strand_(std::make_shared<Strand>(clock, kMaxTasks, thread)),
      ask_(store, strand_) {
  strand_->OnWake([this] { Pump(); });
}

void QueueRunner::Close() {
  strand_->Stop();
  static_cast<void>(store_.ReadNow([](store::Database&) { return OkStatus(); }));
}

void QueueRunner::ReleaseLeases() {
  releasing_ = true;
  std::promise<store::Store::Work> stopped;
  strand_->Post([this, &stopped] {
    Pump();  // what has ended ends
    stopped_ = true;
    stopped.set_value(Release());
  });
  const store::Store::Work requeue = stopped.get_future().get();
  // It comes after what was handed in before: ends and a last claim. If the disk refuses it, the
  // next process takes the leases back and counts an attempt for each.
  static_cast<void>(store_.WriteNow(requeue));
}

void QueueRunner::TickIn(Duration wait) {
  const TimePoint when = clock_.Now() + wait;
  if (when >= next_tick_) return;
  next_tick_ = when;
  strand_->PostAt(when, [this, when] {
    if (when != next_tick_) return;  // an earlier one came in between
    next_tick_ = TimePoint::max();
    if (!stopped_) Tick();
  });
}

bool QueueRunner::TakeSweep() {
  const TimePoint now = clock_.Now();
  if (now < next_sweep_) return false;
  next_sweep_ = now + kSweepInterval;
  return true;
}

void QueueRunner::RetryWrite(const Status& refusal, Strand::Task again) {
  strand_->PostAt(clock_.Now() + StoreRetryDelay(refusal), std::move(again));
}

}  // namespace tutti::background
