#include "services/responses/response_rows.h"

#include <gtest/gtest.h>

namespace tutti::responses {
namespace {

class ResponseRowsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store::Migrate({&kResponseTables, 1}, &database_).ok()); }

  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  static ResponseRecord Record(const std::string& id, const std::string& text = "answer",
                               const std::string& owner = "t") {
    ResponseRecord record;
    record.base.owner = owner;
    record.base.state.id = id;
    record.end = record.base.state;
    record.end.status = protocol::ResponseStatus::kCompleted;
    record.end.text = text;
    return record;
  }
  Status End(const std::string& id, int64_t expires_s = 1000, const StoredLimits& limits = {}) {
    return SaveEnded(database_, Record(id), expires_s, limits);
  }
  bool Has(const std::string& id, const std::string& owner = "t", int64_t now_s = 0) {
    const auto record = LoadEnded(database_, owner, id, now_s);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() && record->has_value();
  }
  int64_t Ask(const std::string& sql) {
    Result<store::Statement> row = database_.Prepare(sql);
    EXPECT_TRUE(row.ok());
    const Result<bool> found = row->Step();
    return found.ok() && *found ? row->Int(0) : -1;
  }

  store::Database database_ = Opened();
};

TEST_F(ResponseRowsTest, OneThatRunsIsFoundToRunAgainUntilItHasEnded) {
  EXPECT_TRUE(SaveRunning(database_, Record("a"), "its request").ok());
  EXPECT_TRUE(SaveRunning(database_, Record("b"), "another").ok());
  EXPECT_FALSE(Has("a")) << "it is shown once it has ended";
  auto running = LoadRunning(database_, 0, 10);
  ASSERT_TRUE(running.ok());
  ASSERT_EQ(running->first.size(), 2u);
  EXPECT_EQ(running->first[0].request, "its request");
  EXPECT_TRUE(End("a").ok());
  EXPECT_TRUE(Has("a"));
  running = LoadRunning(database_, 0, 10);
  ASSERT_TRUE(running.ok());
  ASSERT_EQ(running->first.size(), 1u);
  EXPECT_EQ(running->first[0].record.base.state.id, "b");
  EXPECT_TRUE(LoadRunning(database_, running->second, 10)->first.empty());
}

TEST_F(ResponseRowsTest, ItIsItsOwnersUntilItExpires) {
  EXPECT_TRUE(End("a", 1000).ok());
  EXPECT_TRUE(Has("a", "t", 999));
  EXPECT_FALSE(Has("a", "other", 999));
  EXPECT_FALSE(Has("a", "t", 1000));
  EXPECT_EQ(*DropExpired(database_, 999, 10), 0);
  EXPECT_EQ(*DropExpired(database_, 1000, 10), 1);
  EXPECT_EQ(Ask("SELECT count(*) FROM response"), 0);
  EXPECT_EQ(Ask("SELECT count(*) FROM response_total"), 0);
}

TEST_F(ResponseRowsTest, ManyOfOneOwnerDropItsOldest) {
  const StoredLimits limits{.responses = 3, .bytes = 1 << 20};
  EXPECT_TRUE(SaveEnded(database_, Record("other", "text", "u"), 1000, limits).ok());
  for (const char* id : {"a", "b", "c", "d", "e"}) EXPECT_TRUE(End(id, 1000, limits).ok());
  EXPECT_FALSE(Has("a"));
  EXPECT_FALSE(Has("b"));
  EXPECT_TRUE(Has("c"));
  EXPECT_TRUE(Has("e"));
  EXPECT_TRUE(Has("other", "u"));
  EXPECT_EQ(Ask("SELECT responses FROM response_total WHERE owner='t'"), 3);
}

TEST_F(ResponseRowsTest, ManyBytesOfOneOwnerDropItsOldest) {
  const StoredLimits limits{.responses = 100, .bytes = 5000};
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_TRUE(SaveEnded(database_, Record(id, std::string(1500, 'x')), 1000, limits).ok());
  }
  EXPECT_FALSE(Has("a"));
  EXPECT_TRUE(Has("c"));
  EXPECT_EQ(Ask("SELECT bytes FROM response_total"),
            Ask("SELECT sum(length(CAST(record AS BLOB))) FROM response"));
}

TEST_F(ResponseRowsTest, DeleteTellsWhetherThereWasOne) {
  EXPECT_TRUE(End("a").ok());
  EXPECT_FALSE(*DeleteResponse(database_, "other", "a"));
  EXPECT_TRUE(*DeleteResponse(database_, "t", "a"));
  EXPECT_FALSE(*DeleteResponse(database_, "t", "a"));
}

}  // namespace
}  // namespace tutti::responses
