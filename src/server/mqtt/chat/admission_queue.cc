#include "server/mqtt/chat/admission_queue.h"

namespace tutti::mqtt::chat {

AdmissionQueue::Permit& AdmissionQueue::Permit::operator=(Permit&& other) noexcept {
  if (this != &other) {
    Leave(Outcome::kLeft, entered_);
    room_ = std::exchange(other.room_, nullptr);
    quota_key_ = std::move(other.quota_key_);
    entered_ = other.entered_;
  }
  return *this;
}

void AdmissionQueue::Permit::Leave(Outcome outcome, TimePoint now) {
  if (AdmissionQueue* const room = std::exchange(room_, nullptr)) room->Leave(*this, outcome, now);
}

Result<AdmissionQueue::Permit> AdmissionQueue::Enter(QuotaKey quota_key, TimePoint now) {
  const MutexLock lock(mutex_);
  if (waiting_ >= limits_.all) {
    return Unavailable("overloaded", std::to_string(waiting_) +
                                         " messages wait to be answered, which is the most");
  }
  RETURN_IF_ERROR(quota_counts_.RoomFor(quota_key, "messages"));
  quota_counts_.Add(quota_key);
  ++waiting_;
  Permit permit;
  permit.room_ = this;
  permit.quota_key_ = std::move(quota_key);
  permit.entered_ = now;
  return permit;
}

void AdmissionQueue::CountLocked(Outcome outcome) {
  if (outcome == Outcome::kProcessed) ++processed_;
  if (outcome == Outcome::kError) ++errors_;
  if (outcome == Outcome::kRejected) ++rejected_;
}

void AdmissionQueue::Count(Outcome outcome) {
  const MutexLock lock(mutex_);
  CountLocked(outcome);
}

void AdmissionQueue::Leave(const Permit& permit, Outcome outcome, TimePoint now) {
  const MutexLock lock(mutex_);
  --waiting_;
  quota_counts_.Remove(permit.quota_key_);
  CountLocked(outcome);
  if (outcome == Outcome::kProcessed) total_ += now - permit.entered_;
}

Statistics AdmissionQueue::statistics() const {
  const MutexLock lock(mutex_);
  Statistics statistics{.processed = processed_,
                        .errors = errors_,
                        .rejected = rejected_,
                        .waiting = waiting_,
                        .total = total_,
                        .average = Duration(0)};
  if (processed_ > 0) statistics.average = total_ / static_cast<int64_t>(processed_);
  return statistics;
}

int AdmissionQueue::CrowdingChange() {
  const MutexLock lock(mutex_);
  const bool crowded = waiting_ * 10 >= limits_.all * 7;
  return static_cast<int>(crowded) - static_cast<int>(std::exchange(crowded_, crowded));
}

}  // namespace tutti::mqtt::chat
