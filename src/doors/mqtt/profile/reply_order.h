// ReplyOrder: which answers of a dialog go before others on a topic: those to earlier turns, that
// are on their way there or are about to be. So what an earlier process owed is told before the
// turns that came since have ended, whatever has to be read from the store for it. Of the strand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace tutti::mqtt::profile {

class ReplyOrder : public std::enable_shared_from_this<ReplyOrder> {
 public:
  // `changed`: one that was first has gone.
  explicit ReplyOrder(std::function<void()> changed) : changed_(std::move(changed)) {}

  struct Rank {
    std::string topic, dialog;
    int64_t turn = 0;  // 0: beside all others
  };
  using Place = std::shared_ptr<const void>;  // for as long as it lives, later turns wait
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

}  // namespace tutti::mqtt::profile
