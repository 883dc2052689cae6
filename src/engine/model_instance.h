// ModelInstance: base of DecoderInstance and EncoderInstance. Owns the states of a model's requests
// from the mailbox to their end, and ends those whose deadline or age limit passed.
//
//   Engine::Submit -> mailbox -> Enter() -> works() -> EndRequest() -> Retire() -> destroyed, once
//   (any thread)                 |---------------- engine thread -------------|   readers are woken
//
// Engine thread only, except for the mailbox, the admission state and the heartbeat, which other
// threads use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/admission_state.h"
#include "engine/device_loop.h"
#include "engine/live_watch.h"
#include "engine/mailbox.h"
#include "engine/policy/admission.h"
#include "engine/request.h"

namespace tutti::engine {

// Readers to wake at the end of a step, each once however many requests it reads. Wakers are not
// owned and must live until WakeAll().
class WakeList {
 public:
  void Add(Waker* waker) {
    if (waker != nullptr) wakers_.push_back(waker);
  }
  void WakeAll() {
    if (wakers_.empty()) return;
    std::sort(wakers_.begin(), wakers_.end());
    wakers_.erase(std::unique(wakers_.begin(), wakers_.end()), wakers_.end());
    for (Waker* waker : wakers_) waker->Wake();
    wakers_.clear();
  }

 private:
  std::vector<Waker*> wakers_;
};

// The part of an instance that EngineBase uses, independent of the type of its requests' states.
class InstanceBase : public Slot {
 public:
  InstanceBase(const Clock* clock, std::shared_ptr<Signal> signal,
               std::shared_ptr<AdmissionState> admission)
      : clock_(*clock),
        mailbox_(std::make_shared<Mailbox>(signal)),
        admission_(std::move(admission)),
        live_(std::move(signal)) {}

  // --- any thread ---
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  const std::shared_ptr<AdmissionState>& admission() const { return admission_; }
  Heartbeat heartbeat() const { return pulse_.Read(*mailbox_); }
  LiveWatch& live() { return live_; }  // what of it any thread may call
  // Predicted queueing time of a request that arrives now.
  virtual Duration PredictedWait() const = 0;

 protected:
  const Clock& clock_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<AdmissionState> admission_;
  LiveWatch live_;
  Pulse pulse_;
  WakeList wakers_;                           // to be woken at the end of the step
  TimePoint next_expiry_ = TimePoint::max();  // no deadline or age limit passes before
};

// `State`: RequestState or EncodeRequestState.
template <typename State>
class ModelInstance : public InstanceBase {
 public:
  InstanceReadiness Prepare(TimePoint now) final {
    pulse_.Beat(now);
    TakeInbox(now);
    EndExpired(now);
    const TimePoint next_check = std::min(CheckReaders(now), MovePrefixes(now));
    FinishRound();
    InstanceReadiness readiness;
    const TimePoint next_step = NextStep(now);
    readiness.ready = next_step <= now;
    readiness.next_work = std::min({next_step, next_expiry_, next_check});
    if (!works_.empty()) readiness.next_work = std::min(readiness.next_work, now + kIdleBeat);
    if (!readiness.ready) Publish(now);
    if (live_.wanted()) TakeLive(now);
    return readiness;
  }

  // For invariant checks.
  const std::vector<std::unique_ptr<State>>& works() const { return works_; }

 protected:
  using InstanceBase::InstanceBase;

  // --- what the kinds of models do differently ---
  // Queues a request that was just added to works(), or ends it if it was cancelled meanwhile.
  virtual void Enter(State& work, TimePoint now) = 0;
  // The only place where a request ends. Calls Retire().
  virtual void EndRequest(State& work, Status status, TimePoint now) = 0;
  // The request has not run yet, and must begin within QueueLimits::age.
  virtual bool MustStartSoon(const State& work) const = 0;
  // When the next step may begin; `now` or before: at once.
  virtual TimePoint NextStep(TimePoint now) = 0;
  virtual void PublishStatistics() = 0;
  // Gives live_ a snapshot.
  virtual void TakeLive(TimePoint now) = 0;
  virtual void OnGrant(State& /*work*/) {}
  // Resumes requests whose readers have caught up. Returns when to check again.
  virtual TimePoint CheckReaders(TimePoint /*now*/) { return TimePoint::max(); }
  // Copies a little of the prefixes that are being saved or loaded. Returns when to go on.
  virtual TimePoint MovePrefixes(TimePoint /*now*/) { return TimePoint::max(); }

  // Ends every request with `status`.
  void EndAll(const Status& status) {
    const TimePoint now = clock_.Now();
    // Submissions that were not taken in yet end the same way.
    mailbox_->Drain<State>([&](std::unique_ptr<State> work) { Accept(std::move(work), now); },
                           [](RequestControl&) {});
    while (!works_.empty()) EndRequest(*works_.back(), status, now);
    FinishRound();
    Publish(now);
  }

  // For destructors: the hooks above are called.
  void ShutDown() {
    EndAll(Draining());
    mailbox_->Close();
  }

  // Takes an ended request off the list. Its state lives until FinishRound().
  void Retire(State& work) {
    work.control->work_ = nullptr;
    work.permit.Release();
    const size_t index = work.index;
    finished_.push_back(std::move(works_[index]));
    if (index + 1 < works_.size()) {
      works_[index] = std::move(works_.back());
      works_[index]->index = index;
    }
    works_.pop_back();
    if (works_.empty()) next_expiry_ = TimePoint::max();
  }

  // Wakes readers, then destroys the states of ended requests: these own the wakers.
  void FinishRound() {
    wakers_.WakeAll();
    finished_.clear();
  }

  void Publish(TimePoint now) {
    PublishStatistics();
    pulse_.Publish(!works_.empty(), now);
  }

 private:
  void TakeInbox(TimePoint now) {
    mailbox_->ClearUrgent();  // before anything is taken: later ones set it again
    if (mailbox_->empty()) return;
    mailbox_->Drain<State>([&](std::unique_ptr<State> work) { Accept(std::move(work), now); },
                           [&](RequestControl& control) { ApplyTouch(control, now); });
  }

  void Accept(std::unique_ptr<State> owned, TimePoint now) {
    State& work = *owned;
    work.index = works_.size();
    work.control->work_ = &work;
    works_.push_back(std::move(owned));
    pulse_.HasRequests();
    NoteExpiry(work);
    Enter(work, now);
  }

  void ApplyTouch(RequestControl& control, TimePoint now) {
    auto* work = static_cast<State*>(control.work_);
    if (work == nullptr) return;  // not submitted yet, or ended
    if (control.cancelled()) return EndRequest(*work, Cancelled(), now);
    OnGrant(*work);
  }

  // Time at which a request that has not run yet is ended.
  TimePoint StartDeadline(const State& work) const {
    const Duration age = admission_->limits.age;
    return age != Duration::max() && MustStartSoon(work) ? work.permit.accepted_at() + age
                                                         : TimePoint::max();
  }

  void NoteExpiry(const State& work) {
    next_expiry_ = std::min({next_expiry_, work.request.deadline, StartDeadline(work)});
  }

  void EndExpired(TimePoint now) {
    if (now.time_since_epoch().count() >=
        admission_->drain_deadline_ns.load(std::memory_order_acquire)) {
      EndAll(DrainedUnserved());
    }
    if (now < next_expiry_) return;
    next_expiry_ = TimePoint::max();
    // Where a request ends, Retire() puts another at its index: `i` stays.
    for (size_t i = 0; i < works_.size();) {
      State& work = *works_[i];
      if (work.request.deadline <= now) {
        EndRequest(work, DeadlinePassed(), now);
      } else if (StartDeadline(work) <= now) {
        EndRequest(work, NotStarted(), now);
      } else {
        NoteExpiry(work);
        ++i;
      }
    }
  }

  Status NotStarted() const {
    return Unavailable("overloaded",
                       "the request waited " +
                           std::to_string(static_cast<int64_t>(ToSeconds(admission_->limits.age))) +
                           " s and was not started; retry later")
        .WithRetryAfter(RetryAfter(PredictedWait(), admission_->salt++));
  }

  std::vector<std::unique_ptr<State>> works_;     // alive
  std::vector<std::unique_ptr<State>> finished_;  // ended; destroyed once readers are woken
};

}  // namespace tutti::engine
