#include <gtest/gtest.h>

#include <string>

#include "base/check.h"
#include "services/idempotency/keys.h"

namespace tutti::idempotency {
namespace {

class KeyRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store::Migrate(std::vector<store::Migration>{kKeyTables}, &database_).ok());
  }
  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  void Save(const std::string& id, const std::string& body, int64_t now_ms = 1000,
            const std::string& tenant = "t") {
    const Status status =
        SaveAnswer(database_, {id, tenant, "print", {200, "a: b\n", body}}, now_ms, limits_);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::string Load(const std::string& id, int64_t now_ms = 1000) {
    const Result<std::optional<KeyRow>> row = LoadAnswer(database_, id, now_ms, limits_);
    EXPECT_TRUE(row.ok()) << row.status();
    return row.ok() && row->has_value() ? (*row)->answer.head + (*row)->answer.body : "-";
  }
  int64_t Count(const std::string& sql) {
    Result<store::Statement> row = database_.Prepare(sql);
    CHECK(row.ok()) << row.status();
    const Result<bool> found = row->Step();
    return found.ok() && *found ? row->Int(0) : -1;
  }

  store::Database database_ = Opened();
  KeyLimits limits_{.rows = 3, .bytes = 100, .ttl_ms = 500};
};

TEST_F(KeyRowsTest, AnAnswerIsWhatItWasByteForByte) {
  const std::string body("\0\xff{}", 4);
  Save("one", body);
  EXPECT_EQ(Load("one"), "a: b\n" + body);
  EXPECT_EQ(Load("two"), "-");
  Save("one", "anew");
  EXPECT_EQ(Load("one"), "a: b\nanew");
  EXPECT_EQ(Count("SELECT answers FROM repeat_total"), 1);
}

TEST_F(KeyRowsTest, TheOldestOfATenantMakeRoomForItsOwnAlone) {
  for (const char* id : {"a", "b", "c", "d"}) Save(id, "x");
  EXPECT_EQ(Load("a"), "-");
  EXPECT_EQ(Load("b"), "a: b\nx");
  Save("other", std::string(60, 'y'), 1000, "u");
  EXPECT_EQ(Load("b"), "a: b\nx");
  Save("e", std::string(80, 'z'));  // the byte limit leaves room for two others
  EXPECT_EQ(Load("b"), "-");
  EXPECT_EQ(Load("c"), "a: b\nx");
  EXPECT_EQ(Load("e"), "a: b\n" + std::string(80, 'z'));
  EXPECT_EQ(Count("SELECT bytes FROM repeat_total WHERE tenant='t'"), 6 + 6 + 85);
}

TEST_F(KeyRowsTest, WhatIsTooOldIsNotGivenAndGoes) {
  Save("old", "x", 1000);
  Save("new", "y", 1400);
  EXPECT_EQ(Load("old", 1499), "a: b\nx");
  EXPECT_EQ(Load("old", 1500), "-");
  EXPECT_EQ(*ExpireAnswers(database_, 1500, 10, limits_), 1);
  EXPECT_EQ(*ExpireAnswers(database_, 1500, 10, limits_), 0);
  EXPECT_EQ(Load("new", 1500), "a: b\ny");
  EXPECT_EQ(*ExpireAnswers(database_, 2000, 10, limits_), 1);
  EXPECT_EQ(Count("SELECT count(*) FROM repeat_total"), 0);
}

}  // namespace
}  // namespace tutti::idempotency
