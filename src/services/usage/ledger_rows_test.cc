#include "services/usage/ledger_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"

namespace tutti::usage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kRowDay = 86'400'000;
constexpr int64_t kFirstRow = 20'000 * kRowDay;  // 2024-10-04
constexpr int64_t kForEver = kMaxInRow * kRowDay;

class LedgerRowsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store::Migrate({&kLedgerTable, 1}, &database_).ok()); }

  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  void Insert(const Row& row) { EXPECT_TRUE(InsertRow(database_, row).ok()); }
  std::vector<Summary> Sums(GroupBy group, int64_t from = 0, int64_t to = kForEver) {
    const Result<std::vector<Summary>> sums = Summaries(database_, from, to, group);
    EXPECT_TRUE(sums.ok()) << sums.status();
    return sums.ok() ? *sums : std::vector<Summary>();
  }
  std::vector<Row> All(int page = 1000) {
    std::vector<Row> all;
    Cursor cursor;
    while (true) {
      const Result<std::vector<Row>> rows = ReadRows(database_, kForEver, page, &cursor);
      EXPECT_TRUE(rows.ok()) << rows.status();
      if (!rows.ok() || rows->empty()) return all;
      all.insert(all.end(), rows->begin(), rows->end());
    }
  }

  store::Database database_ = Opened();
};

Row Used(int64_t time_ms, const std::string& tenant, const std::string& key, int64_t prompt,
         int64_t cached, int64_t output) {
  return {.time_ms = time_ms,
          .tenant = tenant,
          .key_id = key,
          .user = "u-" + key,
          .model = "m",
          .route = "chat",
          .outcome = "ok",
          .prompt_tokens = prompt,
          .cached_tokens = cached,
          .output_tokens = output,
          .queue_ms = 5,
          .compute_ms = 40};
}

TEST_F(LedgerRowsTest, ARowIsReadAsItWasWritten) {
  const Row row = {.time_ms = kFirstRow + 123,
                   .tenant = "t\"1",
                   .key_id = "k, 1",
                   .user = "ü\n",
                   .model = "",
                   .route = "embeddings",
                   .outcome = "cancelled",
                   .prompt_tokens = 1,
                   .cached_tokens = 2,
                   .output_tokens = 3,
                   .queue_ms = 4,
                   .compute_ms = 5};
  Insert(row);
  EXPECT_THAT(All(), ElementsAre(row));
}

TEST_F(LedgerRowsTest, SumsAreByWhateverIsAskedForAndOfTheStretchAlone) {
  Insert(Used(kFirstRow, "a", "a1", 100, 10, 7));
  Insert(Used(kFirstRow + kRowDay - 1, "a", "a2", 50, 0, 3));
  Insert(Used(kFirstRow + kRowDay, "b", "b1", 20, 20, 1));
  Insert(Used(kFirstRow + kRowDay, "a", "a1", 1, 0, 0));
  EXPECT_THAT(Sums(GroupBy::kTenant), ElementsAre(Summary{"a", 3, 151, 10, 10, 15, 120},
                                                  Summary{"b", 1, 20, 20, 1, 5, 40}));
  EXPECT_THAT(Sums(GroupBy::kKey),
              ElementsAre(Summary{"a1", 2, 101, 10, 7, 10, 80}, Summary{"a2", 1, 50, 0, 3, 5, 40},
                          Summary{"b1", 1, 20, 20, 1, 5, 40}));
  EXPECT_THAT(Sums(GroupBy::kDay), ElementsAre(Summary{"2024-10-04", 2, 150, 10, 10, 10, 80},
                                               Summary{"2024-10-05", 2, 21, 20, 1, 10, 80}));
  EXPECT_THAT(Sums(GroupBy::kModel, kFirstRow + 1, kFirstRow + kRowDay),
              ElementsAre(Summary{"m", 1, 50, 0, 3, 5, 40}));
  EXPECT_EQ(Sums(GroupBy::kUser).size(), 3u);
  EXPECT_EQ(Sums(GroupBy::kRoute).size(), 1u);
  EXPECT_THAT(Sums(GroupBy::kTenant, kFirstRow + 2 * kRowDay), IsEmpty());
}

TEST_F(LedgerRowsTest, ADaysTokensAreThoseThatWereComputed) {
  Insert(Used(kFirstRow - 1, "a", "a1", 1000, 0, 0));
  Insert(Used(kFirstRow, "a", "a1", 100, 60, 7));
  Insert(Used(kFirstRow + kRowDay - 1, "a", "a1", 3, 0, 2));
  Insert(Used(kFirstRow + 5, "b", "a1", 9, 0, 0));
  Insert(Used(kFirstRow + kRowDay, "a", "a1", 1000, 0, 0));
  const Result<std::vector<KeyTokens>> keys = DayTokens(database_, kFirstRow / kRowDay);
  ASSERT_TRUE(keys.ok());
  ASSERT_EQ(keys->size(), 2u);
  EXPECT_EQ((*keys)[0].tenant, "a");
  EXPECT_EQ((*keys)[0].tokens, 40 + 7 + 3 + 2);
  EXPECT_EQ((*keys)[1].tenant, "b");
  EXPECT_EQ((*keys)[1].tokens, 9);
}

TEST_F(LedgerRowsTest, PagesGiveEveryRowOnceInOrderOfTime) {
  Random random(2);
  std::vector<int64_t> times;
  for (int i = 0; i < 500; ++i) {
    times.push_back(kFirstRow + random.Between(0, 50));
    Insert(Used(times.back(), "a", "k", i, 0, 0));
  }
  for (const int page : {1, 7, 500, 1000}) {
    const std::vector<Row> all = All(page);
    ASSERT_EQ(all.size(), 500u) << page;
    int64_t sum = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      sum += all[i].prompt_tokens;
      if (i > 0) {
        ASSERT_LE(all[i - 1].time_ms, all[i].time_ms);
      }
    }
    EXPECT_EQ(sum, 499 * 500 / 2) << page;
  }
}

TEST_F(LedgerRowsTest, NumbersOutOfRangeAreStoredAsTheMostAndTheLeast) {
  Insert(Used(kFirstRow, "a", "k", INT64_MAX, -5, kMaxInRow + 1));
  EXPECT_THAT(Sums(GroupBy::kKey), ElementsAre(Summary{"k", 1, kMaxInRow, 0, kMaxInRow, 5, 40}));
}

TEST_F(LedgerRowsTest, OldRowsGoOldestFirstAndNoMoreThanAskedFor) {
  for (int i = 0; i < 10; ++i) Insert(Used(kFirstRow + 9 - i, "a", "k", i, 0, 0));
  Result<int64_t> gone = DeleteBefore(database_, kFirstRow + 8, 3);
  ASSERT_TRUE(gone.ok());
  EXPECT_EQ(*gone, 3);
  EXPECT_EQ(All().front().time_ms, kFirstRow + 3);
  gone = DeleteBefore(database_, kFirstRow + 8, 100);
  EXPECT_EQ(*gone, 5);
  EXPECT_EQ(All().front().time_ms, kFirstRow + 8);
  EXPECT_EQ(All().size(), 2u);
}

TEST_F(LedgerRowsTest, TheTableGoesBackAsItCame) {
  EXPECT_TRUE(database_.Execute(kLedgerTable.back).ok());
  EXPECT_TRUE(database_.Execute(kLedgerTable.forward).ok());
  EXPECT_THAT(All(), IsEmpty());
}

}  // namespace
}  // namespace tutti::usage
