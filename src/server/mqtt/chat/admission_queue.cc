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
  if (counts_.waiting >= limits_.all) {
    return Unavailable("overloaded", std::to_string(counts_.waiting) +
                                         " messages wait to be answered, which is the most");
  }
  RETURN_IF_ERROR(quota_counts_.RoomFor(quota_key, "messages"));
  quota_counts_.Add(quota_key);
  ++counts_.waiting;
  Permit permit;
  permit.room_ = this;
  permit.quota_key_ = std::move(quota_key);
  permit.entered_ = now;
  return permit;
}

void AdmissionQueue::CountLocked(Outcome outcome) {
  if (outcome == Outcome::kProcessed) ++counts_.processed;
  if (outcome == Outcome::kError) ++counts_.errors;
  if (outcome == Outcome::kRejected) ++counts_.rejected;
}

void AdmissionQueue::Count(Outcome outcome) {
  const MutexLock lock(mutex_);
  CountLocked(outcome);
}

void AdmissionQueue::Leave(const Permit& permit, Outcome outcome, TimePoint now) {
  const MutexLock lock(mutex_);
  --counts_.waiting;
  quota_counts_.Remove(permit.quota_key_);
  CountLocked(outcome);
  if (outcome == Outcome::kProcessed) counts_.total += now - permit.entered_;
}

Statistics AdmissionQueue::statistics() const {
  const MutexLock lock(mutex_);
  Statistics statistics = counts_;
  if (statistics.processed > 0)
    statistics.average = statistics.total / static_cast<int64_t>(statistics.processed);
  return statistics;
}

int AdmissionQueue::CrowdingChange() {
  const MutexLock lock(mutex_);
  const bool crowded = counts_.waiting * 10 >= limits_.all * 7;
  return static_cast<int>(crowded) - static_cast<int>(std::exchange(crowded_, crowded));
}

}  // namespace tutti::mqtt::chat
