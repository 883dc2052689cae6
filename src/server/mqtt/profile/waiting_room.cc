#include "server/mqtt/profile/waiting_room.h"

namespace tutti::mqtt::profile {

WaitingRoom::Ticket& WaitingRoom::Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    Leave(Outcome::kLeft, entered_);
    room_ = std::exchange(other.room_, nullptr);
    claimant_ = std::move(other.claimant_);
    entered_ = other.entered_;
  }
  return *this;
}

void WaitingRoom::Ticket::Leave(Outcome outcome, TimePoint now) {
  if (WaitingRoom* const room = std::exchange(room_, nullptr)) room->Leave(*this, outcome, now);
}

Result<WaitingRoom::Ticket> WaitingRoom::Enter(Claimant claimant, TimePoint now) {
  const MutexLock lock(mutex_);
  if (waiting_ >= limits_.all) {
    return Unavailable("overloaded", std::to_string(waiting_) +
                                         " messages wait to be answered, which is the most");
  }
  RETURN_IF_ERROR(claimants_.RoomFor(claimant, "messages"));
  claimants_.Add(claimant);
  ++waiting_;
  Ticket ticket;
  ticket.room_ = this;
  ticket.claimant_ = std::move(claimant);
  ticket.entered_ = now;
  return ticket;
}

void WaitingRoom::CountLocked(Outcome outcome) {
  if (outcome == Outcome::kProcessed) ++processed_;
  if (outcome == Outcome::kError) ++errors_;
  if (outcome == Outcome::kRejected) ++rejected_;
}

void WaitingRoom::Count(Outcome outcome) {
  const MutexLock lock(mutex_);
  CountLocked(outcome);
}

void WaitingRoom::Leave(const Ticket& ticket, Outcome outcome, TimePoint now) {
  const MutexLock lock(mutex_);
  --waiting_;
  claimants_.Remove(ticket.claimant_);
  CountLocked(outcome);
  if (outcome == Outcome::kProcessed) total_ += now - ticket.entered_;
}

Statistics WaitingRoom::statistics() const {
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

int WaitingRoom::CrowdingChange() {
  const MutexLock lock(mutex_);
  const bool crowded = waiting_ * 10 >= limits_.all * 7;
  return static_cast<int>(crowded) - static_cast<int>(std::exchange(crowded_, crowded));
}

}  // namespace tutti::mqtt::profile
