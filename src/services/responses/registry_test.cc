#include <gtest/gtest.h>

#include "services/responses/responses.h"

namespace tutti::responses {
namespace {

std::shared_ptr<Response> Make(const std::string& owner, const std::string& id) {
  ResponseBase base;
  base.owner = owner;
  base.state.id = id;
  return std::make_shared<Response>(std::move(base), 1000);
}

TEST(RegistryTest, NobodyFindsAnothersResponse) {
  Registry registry({});
  EXPECT_TRUE(registry.Add(Make("a", "r")).ok());
  EXPECT_NE(registry.Find("a", "r"), nullptr);
  EXPECT_EQ(registry.Find("b", "r"), nullptr);
  EXPECT_FALSE(registry.Add(Make("b", "r")).ok()) << "an id is one's alone";
}

TEST(RegistryTest, WhereThereIsNoRoomTheOwnersOldestThatEndedGoes) {
  Registry registry({.per_owner = 2, .all = 10});
  const auto first = Make("a", "1"), second = Make("a", "2");
  EXPECT_TRUE(registry.Add(first).ok());
  EXPECT_TRUE(registry.Add(second).ok());
  EXPECT_EQ(registry.Add(Make("a", "3")).reason(), "tenant_concurrency");
  EXPECT_TRUE(registry.Add(Make("b", "4")).ok()) << "another's room";
  registry.Ended(*second);
  registry.Ended(*first);
  EXPECT_TRUE(registry.Add(Make("a", "3")).ok());
  EXPECT_EQ(registry.Find("a", "2"), nullptr) << "it ended first";
  EXPECT_NE(registry.Find("a", "1"), nullptr);
  EXPECT_EQ(second->id(), "2") << "who looks at it keeps it";
}

TEST(RegistryTest, AllTogetherAreBounded) {
  Registry registry({.per_owner = 10, .all = 2});
  EXPECT_TRUE(registry.Add(Make("a", "1")).ok());
  EXPECT_TRUE(registry.Add(Make("b", "2")).ok());
  EXPECT_EQ(registry.Add(Make("c", "3")).reason(), "overloaded");
  registry.Remove("1");
  EXPECT_TRUE(registry.Add(Make("c", "3")).ok());
  registry.Remove("1");
  EXPECT_EQ(registry.size(), 2u);
}

TEST(RegistryTest, ThoseThatEndedCanBeRemovedTogether) {
  Registry registry({});
  const auto ended = Make("a", "1");
  EXPECT_TRUE(registry.Add(ended).ok());
  EXPECT_TRUE(registry.Add(Make("a", "2")).ok());
  registry.Ended(*ended);
  registry.RemoveEnded("a");
  EXPECT_EQ(registry.Find("a", "1"), nullptr);
  EXPECT_NE(registry.Find("a", "2"), nullptr);
}

}  // namespace
}  // namespace tutti::responses
