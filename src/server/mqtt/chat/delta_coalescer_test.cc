#include <gtest/gtest.h>

#include "server/mqtt/chat/reply_publisher.h"

namespace tutti::mqtt::chat {
namespace {

using std::chrono::milliseconds;

constexpr DeltaCoalescer::Options kOptions{.hold = milliseconds(30), .bytes = 256};
const TimePoint kStart{Duration(milliseconds(1000))};

protocol::TextDeltaEvent Delta(std::string text) { return {0, "msg_1", std::move(text)}; }

TEST(DeltaCoalescerTest, TheFirstGoesAtOnce) {
  DeltaCoalescer coalescer(kOptions);
  EXPECT_EQ(coalescer.due(), TimePoint::max());
  EXPECT_EQ(coalescer.held(), nullptr);
  coalescer.Add(5, Delta("a"), kStart);
  EXPECT_EQ(coalescer.due(), kStart);
}

TEST(DeltaCoalescerTest, LaterDeltasAreHeldThirtyMillisecondsFromTheFirst) {
  DeltaCoalescer coalescer(kOptions);
  coalescer.Add(5, Delta("a"), kStart);
  coalescer.Sent(kStart);
  coalescer.Add(6, Delta("b"), kStart + milliseconds(20));
  EXPECT_EQ(coalescer.due(), kStart + milliseconds(50));
  coalescer.Add(7, Delta("c"), kStart + milliseconds(40));
  EXPECT_EQ(coalescer.due(), kStart + milliseconds(50));
  ASSERT_NE(coalescer.held(), nullptr);
  EXPECT_EQ(coalescer.held()->first, 6);
  EXPECT_EQ(coalescer.held()->last, 7);
  EXPECT_EQ(coalescer.held()->event.text, "bc");
}

TEST(DeltaCoalescerTest, OneThatComesAfterAPauseGoesAtOnce) {
  DeltaCoalescer coalescer(kOptions);
  coalescer.Add(5, Delta("a"), kStart);
  coalescer.Sent(kStart);
  coalescer.Add(6, Delta("b"), kStart + milliseconds(30));
  EXPECT_EQ(coalescer.due(), kStart + milliseconds(30));
}

TEST(DeltaCoalescerTest, So256BytesAreDueAtOnce) {
  DeltaCoalescer coalescer(kOptions);
  coalescer.Add(5, Delta("a"), kStart);
  coalescer.Sent(kStart);
  const TimePoint soon = kStart + milliseconds(1);
  coalescer.Add(6, Delta(std::string(255, 'x')), soon);
  EXPECT_GT(coalescer.due(), soon);
  coalescer.Add(7, Delta("y"), soon);
  EXPECT_EQ(coalescer.due(), soon);
}

// 100 streams of 50 tokens a second: 2,000 to 3,000 messages a second.
TEST(DeltaCoalescerTest, FiftyTokensASecondAreTwentyFiveMessages) {
  DeltaCoalescer coalescer(kOptions);
  int messages = 0;
  std::string text;
  for (int ms = 0; ms < 1000; ++ms) {
    const TimePoint now = kStart + milliseconds(ms);
    if (ms % 20 == 0) coalescer.Add(ms / 20, Delta("t"), now);
    if (coalescer.due() > now) continue;
    ++messages;
    text += coalescer.held()->event.text;
    coalescer.Sent(now);
  }
  EXPECT_GE(messages, 20);
  EXPECT_LE(messages, 30);
  EXPECT_GE(text.size(), 49u);
}

}  // namespace
}  // namespace tutti::mqtt::chat
