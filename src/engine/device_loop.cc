#include "engine/device_loop.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/threads.h"
#include "engine/admission_state.h"
#include "engine/model_instance.h"

namespace tutti::engine {
namespace {

// Delay before the loop asks a slot again that was ready but then had nothing to run.
constexpr Duration kFalseStart = std::chrono::milliseconds(1);

// Minimum time without progress that counts as a stall; also at least 20 average steps.
constexpr Duration kStuck = std::chrono::seconds(10);

}  // namespace

DeviceLoop::DeviceLoop(const Clock* clock) : clock_(*clock), signal_(std::make_shared<Signal>()) {}

DeviceLoop::~DeviceLoop() { Stop(); }

void DeviceLoop::Add(Slot* slot) { ChangeSlots(true, slot); }
void DeviceLoop::Remove(Slot* slot) { ChangeSlots(false, slot); }

void DeviceLoop::ChangeSlots(bool add, Slot* slot) {
  uint64_t mine = 0;
  {
    const MutexLock lock(mutex_);
    changes_.push_back({add, slot});
    mine = ++asked_;
    has_changes_.store(true, std::memory_order_release);
  }
  if (!started()) return ApplyChanges();
  signal_->Notify();
  const MutexLock lock(mutex_);
  while (done_ < mine) applied_.Wait(mutex_);
}

void DeviceLoop::ApplyChanges() {
  const MutexLock lock(mutex_);
  for (const Change& change : changes_) {
    if (change.add) {
      seats_.emplace_back().slot = change.slot;
    } else {
      std::erase_if(seats_, [&](const Seat& seat) { return seat.slot == change.slot; });
    }
  }
  changes_.clear();
  done_ = asked_;
  has_changes_.store(false, std::memory_order_release);
  applied_.NotifyAll();
}

void DeviceLoop::Start() {
  CHECK(!started());
  stop_.store(false);
  thread_ = std::thread([this] { Main(); });
}

void DeviceLoop::Stop() {
  if (!started()) return;
  stop_.store(true, std::memory_order_release);
  signal_->Notify();
  thread_.join();
}

void DeviceLoop::Main() {
  NameThread("tutti-engine");
  while (!stop_.load(std::memory_order_acquire)) {
    if (RunOnce()) continue;
    const TimePoint next = next_work_;
    signal_->Wait(next == TimePoint::max() ? Duration::max() : next - clock_.Now());
  }
  if (has_changes_.load(std::memory_order_acquire)) ApplyChanges();
}

Contention DeviceLoop::ContentionOf(size_t seat, TimePoint now) const {
  Contention contention;
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (i == seat) continue;
    if (seats_[i].last_ready != TimePoint::min() && now - seats_[i].last_ready <= kContentionTime)
      contention.lately = true;
    if (!seats_[i].view.ready) continue;
    const Duration step(static_cast<int64_t>(seats_[i].step_ns));
    if (!contention.ready || step < contention.step) contention.step = step;
    contention.ready = true;
  }
  return contention;
}

void DeviceLoop::Yield(TimePoint now) {
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].slot == last_ && last_->yields() && ContentionOf(i, now).ready)
      views_[i].ready = false;
  }
}

bool DeviceLoop::RunOnce() {
  if (has_changes_.load(std::memory_order_acquire)) ApplyChanges();
  const TimePoint now = clock_.Now();
  next_work_ = TimePoint::max();
  views_.clear();
  for (Seat& seat : seats_) {
    const InstanceReadiness readiness = seat.slot->Prepare(now);
    seat.view.ready = readiness.ready;
    seat.view.weight = seat.slot->weight();
    if (readiness.ready) seat.last_ready = now;
    if (!readiness.ready) next_work_ = std::min(next_work_, readiness.next_work);
    views_.push_back(seat.view);
  }
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].view.ready && !seats_[i].was_ready) {
      seats_[i].view.used = views_[i].used = LiftedUse(views_[i], virtual_time_);
    }
    seats_[i].was_ready = seats_[i].view.ready;
  }
  Yield(now);
  const int turn = ShareDevice(views_);
  if (turn < 0) return false;
  Seat& seat = seats_[static_cast<size_t>(turn)];
  last_ = seat.slot;
  virtual_time_ = TimePerWeight(seat.view);
  seat.slot->OnContention(ContentionOf(static_cast<size_t>(turn), now));
  const bool ran = seat.slot->Step();
  const Duration took = std::max(clock_.Now() - now, Duration(1));
  seat.view.used += took;
  const auto sample = static_cast<double>(took.count());
  // The average falls quickly and rises slowly, so that it follows steps without prefill.
  const double weight = seat.step_ns == 0 ? 1 : sample < seat.step_ns ? 0.5 : 1.0 / 16;
  if (ran) seat.step_ns += (sample - seat.step_ns) * weight;
  if (!ran) next_work_ = std::min(next_work_, now + kFalseStart);
  return ran;
}

void Pulse::Beat(TimePoint now) {
  beat_ns_.store(now.time_since_epoch().count(), std::memory_order_release);
}

void Pulse::StepTook(Duration took) {
  const auto sample = static_cast<double>(took.count());
  average_ns_ += average_ns_ == 0 ? sample : (sample - average_ns_) / 16;
}

void Pulse::Publish(bool has_requests, TimePoint now) {
  step_ns_.store(static_cast<int64_t>(average_ns_), std::memory_order_relaxed);
  alive_.store(has_requests, std::memory_order_relaxed);
  Beat(now);
}

Heartbeat Pulse::Read(const Mailbox& mailbox) const {
  Heartbeat beat;
  // If the loop slept, lateness counts from the arrival of the work, not from the last iteration.
  const TimePoint pending = mailbox.pending_since();
  beat.last_round = TimePoint(Duration(beat_ns_.load(std::memory_order_acquire)));
  beat.busy = alive_.load(std::memory_order_acquire) || pending != TimePoint::max();
  if (!alive_.load(std::memory_order_acquire) && pending != TimePoint::max()) {
    beat.last_round = std::max(beat.last_round, pending);
  }
  beat.average_step = Duration(step_ns_.load());
  return beat;
}

Status LiveBy(const Heartbeat& beat, TimePoint now) {
  if (!beat.busy) return OkStatus();
  const Duration silent = now - beat.last_round;
  if (silent <= std::max(kStuck, beat.average_step * 20)) return OkStatus();
  return Unavailable(
      "engine_stalled",
      "no step has ended for " + std::to_string(static_cast<int64_t>(ToSeconds(silent))) + " s");
}

EngineBase::EngineBase(const Clock* clock, DeviceLoop* outside)
    : clock_(*clock),
      own_loop_(outside == nullptr ? std::make_unique<DeviceLoop>(clock) : nullptr),
      loop_(outside == nullptr ? *own_loop_ : *outside) {}

EngineBase::~EngineBase() = default;

void EngineBase::Attach(InstanceBase* instance) {
  instance_ = instance;
  loop_.Add(instance);
}

void EngineBase::Detach() {
  // Submissions that come while the loop lets the instance go are refused.
  instance_->admission()->closed.store(true, std::memory_order_release);
  loop_.Remove(instance_);
  if (own_loop_ != nullptr) own_loop_->Stop();
}

void EngineBase::Start() {
  CHECK(own_loop_ != nullptr) << "an outside loop is started by its owner";
  own_loop_->Start();
}

void EngineBase::BeginDrain() {
  instance_->admission()->draining.store(true, std::memory_order_release);
}

bool EngineBase::draining() const {
  return instance_->admission()->draining.load(std::memory_order_acquire);
}

int EngineBase::unfinished() const {
  return instance_->admission()->unfinished.load(std::memory_order_acquire);
}

bool EngineBase::Drain(TimePoint deadline) {
  CHECK(loop_.started()) << "Drain waits for the engine thread";
  return DrainQueue(*instance_->admission(), *loop_.signal(), clock_, deadline);
}

bool EngineBase::RunOneStep() {
  CHECK(!loop_.started()) << "the engine has a thread of its own";
  return loop_.RunOnce();
}

TimePoint EngineBase::NextWork() const { return loop_.next_work(); }

Heartbeat EngineBase::heartbeat() const { return instance_->heartbeat(); }

LiveWatch& EngineBase::live() const { return instance_->live(); }

Status EngineBase::Live() const { return LiveBy(heartbeat(), clock_.Now()); }

}  // namespace tutti::engine
