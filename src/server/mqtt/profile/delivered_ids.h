// DeliveredIds: ids of the responses whose answers are known to have arrived, the latest few
// thousand. Used on the strand.
#pragma once

#include <deque>
#include <string>
#include <unordered_set>

namespace tutti::mqtt::profile {

class DeliveredIds {
 public:
  void Add(const std::string& response_id) {
    if (!known_.insert(response_id).second) return;
    order_.push_back(response_id);
    if (order_.size() <= kMost) return;
    known_.erase(order_.front());
    order_.pop_front();
  }
  bool Has(const std::string& response_id) const { return known_.contains(response_id); }

 private:
  static constexpr size_t kMost = 4096;  // ids of 37 bytes
  std::deque<std::string> order_;
  std::unordered_set<std::string> known_;  // the same ids
};

}  // namespace tutti::mqtt::profile
