// ReplyOrder: the order of the answers of a dialog on a topic: answers to earlier turns that are on
// their way, or will be soon, go first. So an answer owed by an earlier process precedes the ends
// of later turns, however much must be read from the store for it. Runs on the strand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace tutti::mqtt::chat {

class ReplyOrder : public std::enable_shared_from_this<ReplyOrder> {
 public:
  // `changed` is called when the first answer of an order has gone.
  explicit ReplyOrder(std::function<void()> changed) : changed_(std::move(changed)) {}

  struct Rank {
    std::string topic, dialog;
    int64_t turn = 0;  // 0: outside the order
  };
  using Place = std::shared_ptr<const void>;  // later turns wait while it exists
  Place Take(const Rank& rank) {
    if (rank.turn == 0) return nullptr;
    const Line line(rank.topic, rank.dialog);
    turns_[line].insert(rank.turn);
    return {nullptr, [order = weak_from_this(), line, turn = rank.turn](const void*) {
              if (const auto held = order.lock()) held->Leave(line, turn);
            }};
  }
  bool IsFirst(const Rank& rank) const {
    const auto line = turns_.find({rank.topic, rank.dialog});
    return rank.turn == 0 || line == turns_.end() || *line->second.begin() >= rank.turn;
  }

 private:
  using Line = std::pair<std::string, std::string>;
  void Leave(const Line& line, int64_t turn) {
    const auto turns = turns_.find(line);
    turns->second.erase(turns->second.find(turn));
    if (turns->second.empty()) turns_.erase(turns);
    changed_();
  }

  const std::function<void()> changed_;
  std::map<Line, std::multiset<int64_t>> turns_;
};

}  // namespace tutti::mqtt::chat
