// Subscriptions: the filters of one session, and how they apply to a message. Pure; used by the io
// thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mqtt/packet.h"

namespace tutti::mqtt::listener {

class Subscriptions {
 public:
  explicit Subscriptions(size_t most) : max_(most) {}

  enum class Added { kNew, kReplaced, kFull };
  // A filter that is there already gets the new options (section 3.8.4).
  Added Add(const Subscription& subscription, std::optional<uint32_t> id);
  bool Remove(std::string_view filter);  // false: there was none

  // The delivery of a message to `topic`: once, at the highest requested QoS, with the ids of all
  // matching filters (3.3.4). nullopt: no delivery. `own`: the session published it.
  struct Match {
    uint8_t qos = 0;
    bool retain_as_published = false;
    std::vector<uint32_t> ids;
  };
  std::optional<Match> Find(std::string_view topic, bool own) const;

  size_t size() const { return entries_.size(); }
  template <typename Visit>  // (const std::string& filter)
  void ForEach(Visit visit) const {
    for (const Entry& entry : entries_) visit(entry.subscription.filter);
  }

 private:
  struct Entry {
    Subscription subscription;
    std::optional<uint32_t> id;
  };
  const size_t max_;
  std::vector<Entry> entries_;
};

}  // namespace tutti::mqtt::listener
