#include "services/sessions/turn_queue.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::sessions {

Result<TurnQueue::Offer> TurnQueue::Add(const std::string& id, BusyPolicy policy) {
  if (const auto known = turns_.find(id); known != turns_.end())
    return Offer{.turn = known->second, .repeated = true, .position = PositionOf(known->second)};
  const bool busy = !idle();
  if (policy == BusyPolicy::kSteer)
    return Status(StatusCode::kFailedPrecondition, "steer_unsupported",
                  "this model's template cannot take a message in the middle of an answer");
  if (busy && policy == BusyPolicy::kReject)
    return Status(StatusCode::kAborted, "conversation_busy",
                  "another turn of this conversation is being answered");
  if (busy && waiting_.size() >= limits_.waiting)
    return ResourceExhausted("mailbox_full", std::to_string(waiting_.size()) +
                                                 " messages of this session wait already")
        .WithExcess(static_cast<int64_t>(waiting_.size()) + 1,
                    static_cast<int64_t>(limits_.waiting));
  Offer offer{.turn = next_++};
  Remember(id, offer.turn);
  const bool first = busy && (policy == BusyPolicy::kInterrupt || policy == BusyPolicy::kRollback);
  if (first) {
    waiting_.push_front(offer.turn);
    if (running_.has_value())
      offer.cancel = policy == BusyPolicy::kInterrupt ? CutShort::kKeep : CutShort::kForget;
  } else {
    waiting_.push_back(offer.turn);
  }
  offer.position = PositionOf(offer.turn);
  return offer;
}

std::optional<int64_t> TurnQueue::Begin() {
  if (running_.has_value() || waiting_.empty()) return std::nullopt;
  running_ = waiting_.front();
  waiting_.pop_front();
  return running_;
}

void TurnQueue::End() {
  CHECK(running_.has_value());
  running_.reset();
}

bool TurnQueue::Withdraw(int64_t turn) {
  const auto found = std::find(waiting_.begin(), waiting_.end(), turn);
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  return true;
}

void TurnQueue::Remember(const std::string& id, int64_t turn) {
  turns_.emplace(id, turn);
  ids_.push_back(id);
  if (ids_.size() <= limits_.remembered) return;
  turns_.erase(ids_.front());
  ids_.pop_front();
}

size_t TurnQueue::PositionOf(int64_t turn) const {
  const auto found = std::find(waiting_.begin(), waiting_.end(), turn);
  if (found == waiting_.end()) return 0;
  return static_cast<size_t>(found - waiting_.begin()) + (running_.has_value() ? 1 : 0);
}

}  // namespace tutti::sessions
