#include "server/mqtt/listener/subscriptions.h"

#include <algorithm>

#include "mqtt/topics.h"

namespace tutti::mqtt::listener {

Subscriptions::Added Subscriptions::Add(const Subscription& subscription,
                                        std::optional<uint32_t> id) {
  for (Entry& entry : entries_) {
    if (entry.subscription.filter != subscription.filter) continue;
    entry = {subscription, id};
    return Added::kReplaced;
  }
  if (entries_.size() >= max_) return Added::kFull;
  entries_.push_back({subscription, id});
  return Added::kNew;
}

bool Subscriptions::Remove(std::string_view filter) {
  return std::erase_if(entries_, [filter](const Entry& entry) {
           return entry.subscription.filter == filter;
         }) > 0;
}

std::optional<Subscriptions::Match> Subscriptions::Find(std::string_view topic, bool own) const {
  std::optional<Match> match;
  for (const Entry& entry : entries_) {
    if ((own && entry.subscription.no_local) || !TopicMatches(entry.subscription.filter, topic)) {
      continue;
    }
    if (!match) match.emplace();
    match->qos = std::max(match->qos, entry.subscription.qos);
    match->retain_as_published |= entry.subscription.retain_as_published;
    if (entry.id) match->ids.push_back(*entry.id);
  }
  return match;
}

}  // namespace tutti::mqtt::listener
