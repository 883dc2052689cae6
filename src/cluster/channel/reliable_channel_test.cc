#include "cluster/channel/reliable_channel.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

namespace tutti::cluster {
namespace {

using std::chrono::milliseconds;

TEST(ReliableChannelTest, MessagesComeInOrderAndAreAcknowledged) {
  ReliableChannel here("here", 7), there("there", 7);
  TimePoint now{};
  here.Send("a");
  here.Send("b");
  v1::Packet packet;
  std::vector<std::string> come;
  while (here.Next(now, &packet)) {
    EXPECT_EQ(packet.session(), 7u);
    EXPECT_EQ(packet.from(), "here");
    there.Receive(packet, now, &come);
    packet.Clear();
  }
  EXPECT_EQ(come, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(here.settled());
  std::vector<std::string> none;
  ASSERT_TRUE(there.Next(now, &packet));
  EXPECT_EQ(packet.number(), 0u);
  here.Receive(packet, now, &none);
  EXPECT_TRUE(here.settled());
  EXPECT_TRUE(none.empty());
  EXPECT_FALSE(there.Next(now, &packet));  // one acknowledgement is enough
}

TEST(ReliableChannelTest, WhatIsNotAcknowledgedIsSentAgainLaterAndLater) {
  ReliableChannel here("here", 7);
  here.Send("a");
  v1::Packet packet;
  const auto sent_at = [&](TimePoint now) {
    packet.Clear();
    return here.Next(now, &packet);
  };
  TimePoint now{};
  ASSERT_TRUE(sent_at(now));
  EXPECT_FALSE(sent_at(now + milliseconds(999)));
  ASSERT_TRUE(sent_at(now += milliseconds(1000)));
  EXPECT_EQ(packet.part(), "a");
  EXPECT_FALSE(sent_at(now + milliseconds(1999)));
  ASSERT_TRUE(sent_at(now += milliseconds(2000)));
  ASSERT_TRUE(sent_at(now += milliseconds(4000)));
  ASSERT_TRUE(sent_at(now += milliseconds(8000)));
  ASSERT_TRUE(sent_at(now += milliseconds(8000)));
  EXPECT_EQ(here.repeated(), 5u);
}

TEST(ReliableChannelTest, TooMuchUnderWayLeavesNoRoom) {
  ReliableChannel here("here", 7);
  for (size_t i = 0; i < ReliableChannel::kMaxUnderWay; ++i) {
    EXPECT_TRUE(here.has_room());
    here.Send("x");
  }
  EXPECT_FALSE(here.has_room());
  ReliableChannel other("other", 7);
  other.Send(std::string(ReliableChannel::kMaxBytes, 'x'));
  EXPECT_FALSE(other.has_room());
}

// A packet beyond what a broker carries was dropped, and all behind it with it, for ever.
TEST(ReliableChannelTest, LongMessagesGoInParts) {
  ReliableChannel here("here", 7), there("there", 7);
  std::string text(100 * ReliableChannel::kPartBytes + 17, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 >> 7);
  here.Send(text);
  here.Send(std::string(ReliableChannel::kPartBytes, 'x'));
  here.Send("");
  TimePoint now{};
  std::vector<std::string> come, none;
  for (int turn = 0; turn < 10 && !here.settled(); ++turn) {
    v1::Packet packet;
    size_t under_way = 0;
    while (here.Next(now, &packet)) {
      EXPECT_LE(packet.part().size(), ReliableChannel::kPartBytes);
      EXPECT_LE(++under_way, ReliableChannel::kMaxUnderWay);
      EXPECT_TRUE(there.Receive(packet, now, &come));
      packet.Clear();
    }
    while (there.Next(now, &packet)) EXPECT_TRUE(here.Receive(packet, now, &none));
  }
  ASSERT_EQ(come.size(), 3u);
  EXPECT_EQ(come[0], text);
  EXPECT_EQ(come[1].size(), ReliableChannel::kPartBytes);
  EXPECT_EQ(come[2], "");
}

TEST(ReliableChannelTest, NumbersThatNobodyGaveChangeNothing) {
  ReliableChannel here("here", 7);
  here.Send("a");
  TimePoint now{};
  v1::Packet packet;
  ASSERT_TRUE(here.Next(now, &packet));
  std::vector<std::string> come;
  for (const uint64_t number : {uint64_t{0}, uint64_t{2}, uint64_t{1} << 63, UINT64_MAX}) {
    v1::Packet wrong;
    wrong.set_received(number);
    wrong.set_number(number == 0 ? 0 : number);
    here.Receive(wrong, now, &come);
    EXPECT_FALSE(here.settled());
    EXPECT_TRUE(come.empty());
  }
}

// A way that loses, doubles and swaps packets, and is closed now and then.
TEST(ReliableChannelTest, AllComesOnceAndInOrderOverAnyWay) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    const auto chance = [&](int percent) {
      return random() % 100 < static_cast<uint64_t>(percent);
    };
    ReliableChannel ends[2] = {{"a", 1}, {"b", 1}};
    std::deque<v1::Packet> way[2];  // to the end of that number
    std::vector<std::string> come[2];
    int made[2] = {0, 0};
    constexpr int kMessages = 200;
    TimePoint now{};
    int turns = 0;
    while (come[0].size() < kMessages || come[1].size() < kMessages || !ends[0].settled() ||
           !ends[1].settled()) {
      ASSERT_LT(++turns, 200'000) << seed;
      now += milliseconds(random() % 40);
      if (chance(1)) {
        way[0].clear();
        way[1].clear();
        ends[0].SendAllAgain();
        ends[1].SendAllAgain();
      }
      for (int i = 0; i < 2; ++i) {
        while (made[i] < kMessages && ends[i].has_room() && chance(30))
          ends[i].Send(std::to_string(made[i]++));
        v1::Packet packet;
        while (ends[i].Next(now, &packet)) {
          if (!chance(10)) way[1 - i].push_back(packet);
          if (chance(10)) way[1 - i].push_back(packet);
          packet.Clear();
        }
        if (way[i].size() > 1 && chance(20)) std::swap(way[i][0], way[i][1]);
        while (!way[i].empty() && chance(70)) {
          ends[i].Receive(way[i].front(), now, &come[i]);
          way[i].pop_front();
        }
      }
    }
    for (const auto& messages : come) {
      ASSERT_EQ(messages.size(), kMessages);
      for (int i = 0; i < kMessages; ++i) ASSERT_EQ(messages[i], std::to_string(i)) << seed;
    }
  }
}

}  // namespace
}  // namespace tutti::cluster
