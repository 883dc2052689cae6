// RefusedTopics: topics to which the broker refuses messages of this server. Mosquitto 2.0 closes
// the connection on each attempt, so such a topic is avoided for a while, after which the access
// rules may have changed. Bounded; not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "base/clock.h"

namespace tutti::mqtt::bridge {

class RefusedTopics {
 public:
  static constexpr Duration kLeftAlone = std::chrono::minutes(5);
  static constexpr size_t kMost = 1024;  // beyond it, all are tried again

  void Add(const std::string& topic, TimePoint now) {
    if (until_.size() >= kMost) until_.clear();
    until_[topic] = now + kLeftAlone;
  }
  bool Has(const std::string& topic, TimePoint now) const {
    const auto found = until_.find(topic);
    return found != until_.end() && now < found->second;
  }

 private:
  std::map<std::string, TimePoint> until_;
};

}  // namespace tutti::mqtt::bridge
