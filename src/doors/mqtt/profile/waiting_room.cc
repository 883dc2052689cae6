#include "doors/mqtt/profile/waiting_room.h"

namespace tutti::mqtt::profile {
namespace {

void Decrement(std::unordered_map<std::string, size_t>* counts, const std::string& name) {
  const auto place = counts->find(name);
  if (place != counts->end() && --place->second == 0) counts->erase(place);
}

}  // namespace

WaitingRoom::Ticket& WaitingRoom::Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    Leave(Outcome::kLeft, entered_);
    room_ = std::exchange(other.room_, nullptr);
    user_ = std::move(other.user_);
    entered_ = other.entered_;
  }
  return *this;
}

void WaitingRoom::Ticket::Leave(Outcome outcome, TimePoint now) {
  if (WaitingRoom* const room = std::exchange(room_, nullptr)) room->Leave(*this, outcome, now);
}

Result<WaitingRoom::Ticket> WaitingRoom::Enter(std::string user, TimePoint now) {
  const MutexLock lock(mutex_);
  if (waiting_ >= limits_.all) {
    return Unavailable("overloaded", std::to_string(waiting_) +
                                         " messages wait to be answered, which is the most");
  }
  if (!user.empty()) {
    const auto known = users_.find(user);
    if (known != users_.end() && known->second >= limits_.per_user) {
      return ResourceExhausted("tenant_concurrency", std::to_string(known->second) +
                                                         " messages of this user wait, which is "
                                                         "the most");
    }
    ++users_[user];
  }
  ++waiting_;
  Ticket ticket;
  ticket.room_ = this;
  ticket.user_ = std::move(user);
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
  Decrement(&users_, ticket.user_);
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
