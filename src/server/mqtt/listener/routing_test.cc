// Routing of messages: subscriptions, the topic index, allowed topics, and the login gate.
#include <gtest/gtest.h>

#include "base/random.h"
#include "mqtt/topics.h"
#include "server/mqtt/listener/authenticator.h"
#include "server/mqtt/listener/hub.h"
#include "server/mqtt/listener/loop.h"

namespace tutti::mqtt::listener {
namespace {

Subscription To(const std::string& filter, uint8_t qos) {
  Subscription subscription;
  subscription.filter = filter;
  subscription.qos = qos;
  return subscription;
}

TEST(SubscriptionsTest, AllThatMatchGiveOneDeliveryAtTheHighestQos) {
  Subscriptions subscriptions(3);
  subscriptions.Add(To("a/#", 0), 1);
  subscriptions.Add(To("a/+", 1), std::nullopt);
  subscriptions.Add(To("b", 1), 3);
  const auto match = subscriptions.Find("a/b", false);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->qos, 1);
  EXPECT_EQ(match->ids, std::vector<uint32_t>{1});
  EXPECT_FALSE(subscriptions.Find("c", false).has_value());
  EXPECT_EQ(subscriptions.Add(To("d", 0), 4), Subscriptions::Added::kFull);
  EXPECT_EQ(subscriptions.Add(To("a/#", 1), 5), Subscriptions::Added::kReplaced);
  EXPECT_EQ(subscriptions.Find("a/b/c", false)->ids, std::vector<uint32_t>{5});
  EXPECT_TRUE(subscriptions.Remove("a/#"));
  EXPECT_FALSE(subscriptions.Remove("a/#"));
  EXPECT_FALSE(subscriptions.Find("a/b/c", false).has_value());
}

TEST(SubscriptionsTest, NoLocalConcernsOnlyWhatTheSessionPublished) {
  Subscriptions subscriptions(3);
  Subscription others = To("a/#", 1);
  others.no_local = true;
  subscriptions.Add(others, std::nullopt);
  subscriptions.Add(To("a/b", 0), std::nullopt);
  EXPECT_EQ(subscriptions.Find("a/b", true)->qos, 0);
  EXPECT_EQ(subscriptions.Find("a/b", false)->qos, 1);
  EXPECT_FALSE(subscriptions.Find("a/c", true).has_value());
}

// Compared with asking every filter.
TEST(TopicIndexTest, FindsWhomAskingEverybodyWouldFind) {
  Random random(11);
  const std::vector<std::string> names = {"a", "b", "", "$x"};
  const auto make = [&](bool filter) {
    std::string text;
    const uint64_t levels = 1 + random.Below(4);
    for (uint64_t i = 0; i < levels; ++i) {
      if (i > 0) text += '/';
      if (filter && i + 1 == levels && random.Chance(0.2)) return text + "#";
      text += filter && random.Chance(0.3) ? "+" : names[random.Below(names.size())];
    }
    return text;
  };
  std::vector<char> sessions(50);  // their addresses alone count
  const auto at = [&](size_t i) { return reinterpret_cast<Session*>(&sessions[i]); };
  std::vector<std::pair<std::string, size_t>> entries;
  TopicIndex index;
  size_t found_in_all = 0;
  for (int round = 0; round < 3000; ++round) {
    if (!entries.empty() && random.Chance(0.4)) {
      const size_t victim = random.Below(entries.size());
      index.Remove(entries[victim].first, at(entries[victim].second));
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      const std::pair<std::string, size_t> entry{make(true), random.Below(sessions.size())};
      if (!IsTopicFilter(entry.first) ||
          std::find(entries.begin(), entries.end(), entry) != entries.end()) {
        continue;
      }
      index.Add(entry.first, at(entry.second));
      entries.push_back(entry);
    }
    const std::string topic = make(false);
    if (topic.empty()) continue;
    std::vector<Session*> expected;
    for (const auto& [filter, session] : entries) {
      if (TopicMatches(filter, topic)) expected.push_back(at(session));
    }
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    ASSERT_EQ(index.Find(topic), expected) << topic;
    found_in_all += expected.size();
  }
  EXPECT_GT(found_in_all, 3000u);
  for (const auto& [filter, session] : entries) index.Remove(filter, at(session));
  EXPECT_TRUE(index.empty()) << "nothing is left of what was removed";
}

TEST(PrincipalTest, AUsersJailIsWhatTheContractSays) {
  const Principal alice = *UserPrincipal("llm/v1", "alice", "t");
  for (const char* topic : {"llm/v1/alice/s/in", "llm/v1/alice/s/ctl", "llm/v1/alice/status"}) {
    EXPECT_TRUE(alice.MayPublish(topic)) << topic;
  }
  for (const char* topic :
       {"llm/v1/alice/s/out", "llm/v1/alice/in", "llm/v1/bob/s/in", "llm/v1/server/n/status"}) {
    EXPECT_FALSE(alice.MayPublish(topic)) << topic;
  }
  EXPECT_TRUE(alice.MaySubscribe("llm/v1/alice/#"));
  EXPECT_TRUE(alice.MaySubscribe("llm/v1/server/+/status"));
  EXPECT_FALSE(alice.MaySubscribe("llm/v1/+/s/out"));
  EXPECT_TRUE(alice.MayRetain("llm/v1/alice/status"));
  EXPECT_FALSE(alice.MayRetain("llm/v1/alice/s/in"));
  EXPECT_TRUE(alice.MayRespond("llm/v1/alice/s/out"));
  EXPECT_FALSE(alice.MayRespond("llm/v1/server/n/status"));
}

TEST(PrincipalTest, ANameThatCouldLeaveItsLevelOrIsOursIsNoUser) {
  for (const char* name : {"", "+", "#", "a/b", "a b", "a#", "server", "jobs", "\xC3\xA9", "a\n"}) {
    EXPECT_FALSE(UserPrincipal("llm/v1", name, "t").ok()) << name;
  }
  EXPECT_FALSE(UserPrincipal("llm/v1", std::string(129, 'a'), "t").ok());
  EXPECT_TRUE(UserPrincipal("llm/v1", "A-b_c.9", "t").ok());
}

TEST(PrincipalTest, WithoutPatternsNothingIsAllowed) {
  const Principal nobody;
  EXPECT_FALSE(nobody.MayPublish("a"));
  EXPECT_FALSE(nobody.MaySubscribe("a"));
  EXPECT_FALSE(nobody.MayRetain("a"));
  EXPECT_FALSE(nobody.MayRespond("a"));
}

TEST(LoginGateTest, BoundsThoseWithoutALoginInAllAndOfOneAddress) {
  Limits limits;
  limits.logins = 3;
  limits.logins_per_address = 2;
  LoginGate gate(limits);
  EXPECT_TRUE(gate.Enter("a"));
  EXPECT_TRUE(gate.Enter("a"));
  EXPECT_FALSE(gate.Enter("a"));
  EXPECT_TRUE(gate.Enter("b"));
  EXPECT_FALSE(gate.Enter("c"));
  gate.Leave("a");
  EXPECT_TRUE(gate.Enter("c"));
  EXPECT_EQ(gate.inside(), 3);
}

}  // namespace
}  // namespace tutti::mqtt::listener
