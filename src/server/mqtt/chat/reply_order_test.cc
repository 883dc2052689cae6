#include <gtest/gtest.h>

#include "server/mqtt/chat/reply_publisher.h"

namespace tutti::mqtt::chat {
namespace {

TEST(ReplyOrderTest, AnEarlierTurnOfTheSameDialogAndTopicGoesFirst) {
  int changes = 0;
  const auto order = std::make_shared<ReplyOrder>([&] { ++changes; });
  const ReplyOrder::Rank first{"t", "d", 1}, second{"t", "d", 2};
  ReplyOrder::Place a = order->Take(first), b = order->Take(second), again = order->Take(first);
  EXPECT_TRUE(order->IsFirst(first));
  EXPECT_FALSE(order->IsFirst(second));
  EXPECT_TRUE(order->IsFirst({"t", "e", 2})) << "of another dialog";
  EXPECT_TRUE(order->IsFirst({"u", "d", 2})) << "elsewhere";
  EXPECT_TRUE(order->IsFirst({"t", "d", 0})) << "of no turn";
  EXPECT_EQ(order->Take({"t", "d", 0}), nullptr);
  a.reset();
  EXPECT_FALSE(order->IsFirst(second)) << "it is said twice";
  again.reset();
  EXPECT_TRUE(order->IsFirst(second));
  EXPECT_EQ(changes, 2);
  b.reset();
  EXPECT_TRUE(order->IsFirst(second));
}

TEST(ReplyOrderTest, APlaceMayOutliveIt) {
  auto order = std::make_shared<ReplyOrder>([] {});
  const ReplyOrder::Place place = order->Take({"t", "d", 1});
  order.reset();
}

}  // namespace
}  // namespace tutti::mqtt::chat
