#include <gtest/gtest.h>

#include "services/background/queue_runner.h"

namespace tutti::background {
namespace {

using Order = std::vector<size_t>;

Order Of(const std::vector<int64_t>& waiting, int64_t room) { return FairOrder(waiting, room); }

TEST(FairOrder, ServesOneItemOfEachOwnerInTurn) {
  EXPECT_EQ(Of({3, 1, 0, 2}, 100), (Order{0, 1, 3, 0, 3, 0}));
  EXPECT_EQ(Of({1000, 1000}, 5), (Order{0, 1, 0, 1, 0}));
  EXPECT_EQ(Of({2, 2}, 1), Order{0});
}

TEST(FairOrder, IsEmptyWithoutItemsOrRoom) {
  EXPECT_EQ(Of({}, 4), Order());
  EXPECT_EQ(Of({0, 0}, 4), Order());
  EXPECT_EQ(Of({1}, 0), Order());
  EXPECT_EQ(Of({1}, -1), Order());
}

}  // namespace
}  // namespace tutti::background
