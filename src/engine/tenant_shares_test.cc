#include "engine/tenant_shares.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::engine {
namespace {

TEST(TenantShares, ANewTenantStartsLevelWithTheLeastOfTheOthers) {
  TenantShares shares;
  const uint32_t a = shares.Join("a", 1), b = shares.Join("b", 1);
  shares.Charge(a, 100);
  shares.Charge(b, 70);
  EXPECT_EQ(shares.service(shares.Join("c", 1)), 70);
  EXPECT_EQ(shares.Join("a", 1), a) << "known while it has members";
  EXPECT_EQ(shares.service(a), 100);
}

TEST(TenantShares, ServiceCountsForTheWeight) {
  TenantShares shares;
  const uint32_t one = shares.Join("one", 1), two = shares.Join("two", 2);
  shares.Charge(one, 10);
  shares.Charge(two, 20);
  EXPECT_EQ(shares.service(one), shares.service(two));
  EXPECT_EQ(shares.ForWeight(two, 5), 2.5);
  EXPECT_EQ(shares.Join("two", 4), two);
  shares.Charge(two, 20);
  EXPECT_EQ(shares.service(two), 15) << "the newest request's weight holds from then on";
}

TEST(TenantShares, WhoComesBackKeepsNoCreditAndWhoLeftWithMoreDoesNotBeginAnew) {
  TenantShares shares;
  const uint32_t stays = shares.Join("stays", 1);
  const uint32_t little = shares.Join("little", 1), much = shares.Join("much", 1);
  shares.Charge(stays, 500);
  shares.Charge(little, 10);
  shares.Charge(much, 900);
  EXPECT_TRUE(shares.Leave(little));
  EXPECT_TRUE(shares.Leave(much));
  EXPECT_EQ(shares.service(shares.Join("little", 1)), 500);
  EXPECT_EQ(shares.service(shares.Join("much", 1)), 900);
}

TEST(TenantShares, WhoIsCaughtUpWithIsForgottenAndItsIndexGivenAway) {
  TenantShares shares;
  const uint32_t stays = shares.Join("stays", 1), much = shares.Join("much", 1);
  shares.Charge(much, 900);
  shares.Leave(much);
  EXPECT_NE(shares.Join("other", 1), much);
  shares.Charge(stays, 2000);
  shares.Charge(2, 2000);
  EXPECT_EQ(shares.Join("another", 1), much);
  EXPECT_EQ(shares.service(much), 2000);
  EXPECT_EQ(shares.size(), 3u);
}

TEST(TenantShares, WhenNobodyIsLeftNobodyOwesAnything) {
  TenantShares shares;
  const uint32_t a = shares.Join("a", 1), b = shares.Join("b", 1);
  shares.Charge(a, 5000);
  shares.Charge(b, 100);
  shares.Leave(a);
  shares.Leave(b);
  EXPECT_EQ(shares.service(shares.Join("a", 1)), 0);
}

TEST(TenantShares, HowManyItRemembersIsBounded) {
  TenantShares shares;
  shares.Join("stays", 1);
  for (int i = 0; i < 5000; ++i) {
    const uint32_t each = shares.Join("t" + std::to_string(i), 1);
    shares.Charge(each, 1000 + i);
    EXPECT_TRUE(shares.Leave(each));
  }
  EXPECT_LE(shares.size(), static_cast<size_t>(TenantShares::kMaxRemembered) + 3);
}

}  // namespace
}  // namespace tutti::engine
