#include "tokenizer/flat_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/random.h"

namespace tutti::tokenizer {
namespace {

TEST(StringTableTest, FindsWhatWasInsertedAndNothingElse) {
  Random random(3);
  std::vector<std::string> keys;
  std::map<std::string, TokenId> expected;
  StringTable table;
  table.Reserve(5000);
  const auto key_of = [&](TokenId id) -> std::string_view { return keys[static_cast<size_t>(id)]; };
  for (TokenId id = 0; id < 5000; ++id) {
    std::string key;
    for (uint64_t n = random.Below(20); n > 0; --n)
      key.push_back(static_cast<char>(random.Below(4)));
    keys.push_back(key);
    const bool fresh = expected.emplace(key, id).second;
    ASSERT_EQ(table.Insert(key, id, key_of), fresh ? Inserted::kNew : Inserted::kDuplicate);
  }
  for (int i = 0; i < 20000; ++i) {
    std::string key;
    for (uint64_t n = random.Below(20); n > 0; --n)
      key.push_back(static_cast<char>(random.Below(4)));
    const auto found = expected.find(key);
    ASSERT_EQ(table.Find(key, key_of), found == expected.end() ? kNoToken : found->second);
  }
}

TEST(StringTableTest, AnEmptyTableFindsNothing) {
  const StringTable table;
  EXPECT_EQ(table.Find("x", [](TokenId) { return std::string_view(); }), kNoToken);
}

TEST(PairTableTest, FindsWhatWasInsertedWhileItGrows) {
  Random random(4);
  std::map<uint64_t, int32_t> expected;
  PairTable table;
  for (int32_t i = 0; i < 20000; ++i) {
    const uint64_t key = PairTable::Key(static_cast<int32_t>(random.Below(200)),
                                        static_cast<int32_t>(random.Below(200)));
    const bool fresh = expected.emplace(key, i).second;
    ASSERT_EQ(table.Insert(key, {i, -i}), fresh ? Inserted::kNew : Inserted::kDuplicate);
  }
  for (int32_t left = 0; left < 200; ++left) {
    for (int32_t right = 0; right < 200; ++right) {
      const auto found = expected.find(PairTable::Key(left, right));
      const PairTable::Value* got = table.Find(PairTable::Key(left, right));
      ASSERT_EQ(got != nullptr, found != expected.end());
      if (got == nullptr) continue;
      ASSERT_EQ(got->first, found->second);
      ASSERT_EQ(got->second, -found->second);
    }
  }
}

TEST(PairTableTest, KeysMadeToCollideAreRefusedInsteadOfProbedForEver) {
  // The multiplier's inverse modulo 2^64 (Newton) turns wanted products into keys; a product with
  // equal halves hashes to slot 0 in a table of any size.
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  uint64_t inverse = kMultiplier;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kMultiplier * inverse;
  ASSERT_EQ(kMultiplier * inverse, 1U);
  PairTable table;
  Inserted last = Inserted::kNew;
  uint64_t inserted = 0;
  for (uint64_t i = 1; i < 5000 && last == Inserted::kNew; ++i) {
    last = table.Insert(((i << 32) | i) * inverse, {});
    inserted += last == Inserted::kNew ? 1 : 0;
  }
  EXPECT_EQ(last, Inserted::kTooManyProbes);
  EXPECT_EQ(inserted, static_cast<uint64_t>(kMaxProbes));
}

}  // namespace
}  // namespace tutti::tokenizer
