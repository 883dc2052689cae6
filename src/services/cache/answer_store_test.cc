#include "services/cache/answer_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "services/cache/shared_answer.h"

namespace tutti::cache {
namespace {

using std::chrono::seconds;

AnswerKey Named(const std::string& tenant, int number) {
  AnswerKey key;
  key.words = tenant + "/" + std::to_string(number);
  const size_t hash = std::hash<std::string>()(key.words);
  std::memcpy(key.hash.data(), &hash, sizeof hash);
  return key;
}

std::shared_ptr<const SharedAnswer> Whole(const AnswerKey& key, const std::string& tenant) {
  return std::make_shared<SharedAnswer>(key, "", tenant, 0, nullptr, nullptr);
}

class AnswerStoreTest : public ::testing::Test {
 protected:
  void Insert(const std::string& tenant, int number) {
    gone_ += store_.Insert(Whole(Named(tenant, number), tenant), now_).size();
  }
  bool Has(const std::string& tenant, int number) {
    return store_.Find(Named(tenant, number), now_, std::nullopt).has_value();
  }

  const size_t one_ = Whole(Named("a", 0), "a")->bytes();
  AnswerStore store_{
      {.bytes = 16 * one_ + 200, .tenant_bytes = 8 * one_ + 100, .ttl = seconds(10)}};
  TimePoint now_{};
  size_t gone_ = 0;
};

TEST_F(AnswerStoreTest, TheLeastRecentlyUsedOfATenantGoesFirst) {
  for (int i = 0; i < 8; ++i) Insert("a", i);
  EXPECT_EQ(gone_, 0u);
  EXPECT_TRUE(Has("a", 0));  // used: the last to go
  Insert("a", 8);
  EXPECT_EQ(gone_, 1u);
  EXPECT_TRUE(Has("a", 0));
  EXPECT_FALSE(Has("a", 1));
}

TEST_F(AnswerStoreTest, WhereMemoryIsShortWhoHasMostGivesFirst) {
  for (int i = 0; i < 6; ++i) Insert("a", i);
  for (int i = 0; i < 2; ++i) Insert("b", i);
  EXPECT_EQ(store_.ShrinkTo(store_.bytes() / 2).size(), 4u);
  EXPECT_EQ(store_.entries(), 4u);
  EXPECT_FALSE(Has("a", 3)) << "the least recently used";
  EXPECT_TRUE(Has("a", 4) && Has("a", 5) && Has("b", 0) && Has("b", 1));
  EXPECT_EQ(store_.ShrinkTo(0).size(), 4u);
  EXPECT_EQ(store_.bytes(), 0u);
}

TEST_F(AnswerStoreTest, WhatIsTooOldIsNotFoundAndGone) {
  Insert("a", 0);
  now_ += seconds(4);
  EXPECT_EQ(store_.Find(Named("a", 0), now_, std::nullopt)->age, seconds(4));
  EXPECT_TRUE(store_.Find(Named("a", 0), now_, seconds(4)).has_value());
  EXPECT_FALSE(store_.Find(Named("a", 0), now_, seconds(3)).has_value());
  EXPECT_EQ(store_.entries(), 1u);
  now_ += seconds(6);
  EXPECT_FALSE(Has("a", 0));
  EXPECT_EQ(store_.entries(), 0u);
  EXPECT_EQ(store_.bytes(), 0u);
}

TEST_F(AnswerStoreTest, AnEqualHashWithOtherWordsIsNoHit) {
  Insert("a", 0);
  AnswerKey collides = Named("a", 0);
  collides.words += " and more";
  EXPECT_FALSE(store_.Find(collides, now_, std::nullopt).has_value());
}

TEST_F(AnswerStoreTest, OneOfTheSameKeyTakesItsPlace) {
  Insert("a", 0);
  const size_t bytes = store_.bytes();
  now_ += seconds(9);
  Insert("a", 0);
  EXPECT_EQ(store_.entries(), 1u);
  EXPECT_EQ(store_.bytes(), bytes);
  EXPECT_EQ(store_.Find(Named("a", 0), now_, std::nullopt)->age, seconds(0));
}

TEST_F(AnswerStoreTest, WhoFillsItDrivesOutNobodyWhoHasLess) {
  for (int i = 0; i < 4; ++i) Insert("small", i);
  for (int i = 0; i < 1000; ++i) Insert("a", i);
  for (int i = 0; i < 1000; ++i) Insert("b", i);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Has("small", i)) << i;
  EXPECT_EQ(store_.tenant_bytes("small"), 4 * Whole(Named("small", 0), "small")->bytes());
}

TEST_F(AnswerStoreTest, AFlushTakesOneTenantsAndNoOthers) {
  for (int i = 0; i < 5; ++i) Insert("a", i);
  for (int i = 0; i < 3; ++i) Insert("b", i);
  EXPECT_EQ(store_.Flush("a").size(), 5u);
  EXPECT_EQ(store_.Flush("a").size(), 0u);
  EXPECT_EQ(store_.entries(), 3u);
  EXPECT_FALSE(Has("a", 4));
  EXPECT_TRUE(Has("b", 2));
  EXPECT_EQ(store_.Flush(std::nullopt).size(), 3u);
  EXPECT_EQ(store_.bytes(), 0u);
}

TEST(AnswerStoreBounds, TheCapsHoldOverAHundredThousandAnswers) {
  const size_t one = Whole(Named("t0", 0), "t0")->bytes();
  const AnswerLimits limits{.bytes = 500 * one, .tenant_bytes = 100 * one, .ttl = seconds(60)};
  AnswerStore store(limits);
  size_t gone = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::string tenant = "t" + std::to_string(i % 9);
    gone += store.Insert(Whole(Named(tenant, i), tenant), TimePoint{}).size();
    ASSERT_LE(store.bytes(), limits.bytes);
    ASSERT_LE(store.tenant_bytes(tenant), limits.tenant_bytes);
  }
  EXPECT_EQ(gone + store.entries(), 100000u);
  EXPECT_GT(store.entries(), 450u);
}

TEST(AnswerStoreBounds, WhatIsGreaterThanATenantsShareIsNotKept) {
  AnswerStore store({.bytes = 1 << 20, .tenant_bytes = 64, .ttl = seconds(60)});
  EXPECT_EQ(store.Insert(Whole(Named("a", 0), "a"), TimePoint{}).size(), 0u);
  EXPECT_EQ(store.entries(), 0u);
}

}  // namespace
}  // namespace tutti::cache
