#include "services/sessions/turn_queue.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::sessions {
namespace {

// How the running turn is cut short, by the policy of the new message; nullopt: it is not.
std::optional<CutShort> CutOf(BusyPolicy policy) {
  switch (policy) {
    case BusyPolicy::kInterrupt:
      return CutShort::kKeep;
    case BusyPolicy::kRollback:
      return CutShort::kForget;
    case BusyPolicy::kSteer:
      return CutShort::kSteer;
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<TurnQueue::Offer> TurnQueue::Add(const std::string& id, BusyPolicy policy, bool parallel) {
  if (const auto known = Find(id); known.has_value())
    return Offer{.turn = *known, .repeated = true, .position = PositionOf(*known)};
  const bool busy = !idle();
  if (busy && policy == BusyPolicy::kReject)
    return Status(StatusCode::kAborted, "conversation_busy",
                  "another turn of this conversation is being answered");
  if (busy && waiting_.size() >= limits_.waiting)
    return ResourceExhausted("session_queue_full", std::to_string(waiting_.size()) +
                                                       " messages of this session wait already")
        .WithExcess(static_cast<int64_t>(waiting_.size()) + 1,
                    static_cast<int64_t>(limits_.waiting));
  Offer offer{.turn = next_++};
  Remember(id, offer.turn);
  const std::optional<CutShort> cut = CutOf(policy);
  if (cut.has_value() && !running_.empty()) offer.cancel = cut;
  const bool steers = policy == BusyPolicy::kSteer;
  auto place = cut.has_value() ? waiting_.begin() : waiting_.end();
  while (steers && place != waiting_.end() && place->steers) ++place;
  waiting_.insert(place, {offer.turn, parallel, steers});
  offer.position = PositionOf(offer.turn);
  return offer;
}

std::optional<int64_t> TurnQueue::Find(const std::string& id) const {
  const auto known = turns_.find(id);
  if (known == turns_.end()) return std::nullopt;
  return known->second;
}

int64_t TurnQueue::Skip(int64_t numbers) {
  const int64_t first = next_;
  next_ += numbers;
  return first;
}

void TurnQueue::Remember(const std::string& id, int64_t turn) {
  next_ = std::max(next_, turn + 1);
  turns_.emplace(id, turn);
  ids_.push_back(id);
  if (ids_.size() <= limits_.remembered) return;
  turns_.erase(ids_.front());
  ids_.pop_front();
}

void TurnQueue::Restore(const std::string& id, int64_t turn, bool parallel) {
  Remember(id, turn);
  waiting_.push_back({turn, parallel, /*steers=*/false});
}

void TurnQueue::ForgetEnded() {
  std::erase_if(ids_, [this](const std::string& id) {
    const int64_t turn = turns_.at(id);
    const bool runs = std::find(running_.begin(), running_.end(), turn) != running_.end();
    if (runs || Locate(turn) != waiting_.end()) return false;
    turns_.erase(id);
    return true;
  });
}

std::optional<int64_t> TurnQueue::next() const {
  if (waiting_.empty()) return std::nullopt;
  const Waiting& front = waiting_.front();
  const bool joins = front.parallel && all_parallel_ && running_.size() < limits_.parallel;
  if (!running_.empty() && !joins) return std::nullopt;
  return front.turn;
}

std::optional<int64_t> TurnQueue::Begin() {
  const std::optional<int64_t> turn = next();
  if (!turn.has_value()) return std::nullopt;
  all_parallel_ = waiting_.front().parallel;
  running_.push_back(*turn);
  waiting_.pop_front();
  return turn;
}

void TurnQueue::End(int64_t turn) {
  const auto found = std::find(running_.begin(), running_.end(), turn);
  CHECK(found != running_.end());
  running_.erase(found);
}

bool TurnQueue::Withdraw(int64_t turn) {
  const auto found = Locate(turn);
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  return true;
}

void TurnQueue::TakeBack(const std::string& id, int64_t turn) {
  (void)Withdraw(turn);
  turns_.erase(id);
  ids_.erase(std::remove(ids_.begin(), ids_.end(), id), ids_.end());
}

std::deque<TurnQueue::Waiting>::const_iterator TurnQueue::Locate(int64_t turn) const {
  return std::find_if(waiting_.begin(), waiting_.end(),
                      [turn](const Waiting& each) { return each.turn == turn; });
}

size_t TurnQueue::PositionOf(int64_t turn) const {
  const auto found = Locate(turn);
  if (found == waiting_.end()) return 0;
  return static_cast<size_t>(found - waiting_.begin()) + running_.size();
}

}  // namespace tutti::sessions
