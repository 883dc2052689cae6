#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "store/database.h"
#include "temp_folder.h"

namespace tutti::store {
namespace {

using ::testing::HasSubstr;

constexpr Migration kSteps[] = {
    {"CREATE TABLE a(x INTEGER); INSERT INTO a VALUES(1), (2)", "DROP TABLE a"},
    {"ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 7; CREATE TABLE b(z TEXT)",
     "DROP TABLE b; ALTER TABLE a DROP COLUMN y"},
    {"CREATE INDEX a_y ON a(y)", "DROP INDEX a_y"}};

std::span<const Migration> First(size_t count) { return std::span(kSteps).first(count); }

class MigrationsTest : public ::testing::Test {
 protected:
  Database Opened() {
    Result<Database> database = Database::Open(path_);
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  static int64_t Ask(Database& database, std::string_view sql) {
    Result<Statement> statement = database.Prepare(sql);
    CHECK(statement.ok());
    CHECK(*statement->Step());
    return statement->Int(0);
  }
  static int64_t Version(Database& database) { return Ask(database, "PRAGMA user_version"); }

  const support::TempFolder folder_;
  const std::string path_ = folder_.path() + "/a.db";
};

TEST_F(MigrationsTest, GoForwardOnceAndKeepTheRows) {
  for (const size_t count : {1, 1, 3, 3}) {
    Database database = Opened();
    EXPECT_TRUE(Migrate(First(count), &database).ok());
    EXPECT_EQ(Version(database), static_cast<int64_t>(count));
    EXPECT_EQ(Ask(database, "SELECT sum(x) FROM a"), 3);
  }
}

TEST_F(MigrationsTest, AProgramThatKnowsOneLessUndoesItAndKeepsTheRows) {
  {
    Database database = Opened();
    EXPECT_TRUE(Migrate(First(2), &database).ok());
  }
  {
    Database database = Opened();
    EXPECT_TRUE(Migrate(First(1), &database).ok());
    EXPECT_EQ(Version(database), 1);
    EXPECT_EQ(Ask(database, "SELECT sum(x) FROM a"), 3);
    EXPECT_EQ(Ask(database, "SELECT count(*) FROM sqlite_master WHERE name='b'"), 0);
  }
  Database database = Opened();
  EXPECT_TRUE(Migrate(First(3), &database).ok());
  EXPECT_EQ(Ask(database, "SELECT sum(y) FROM a"), 14);
}

TEST_F(MigrationsTest, MoreThanOneStepBackIsRefusedAndChangesNothing) {
  {
    Database database = Opened();
    EXPECT_TRUE(Migrate(First(3), &database).ok());
  }
  Database database = Opened();
  const Status refused = Migrate(First(1), &database);
  EXPECT_EQ(refused.reason(), "store_too_new");
  EXPECT_THAT(refused.message(), HasSubstr("version 3, this program knows 1"));
  EXPECT_EQ(Version(database), 3);
}

TEST_F(MigrationsTest, OneThatFailsLeavesTheVersionBefore) {
  const Migration broken[] = {kSteps[0], {"CREATE TABLE c(x); CREATE TABLE a(x)", ""}};
  Database database = Opened();
  EXPECT_FALSE(Migrate(broken, &database).ok());
  EXPECT_EQ(Version(database), 1);
  EXPECT_EQ(Ask(database, "SELECT count(*) FROM sqlite_master WHERE name='c'"), 0);
  EXPECT_TRUE(Migrate(First(2), &database).ok());
}

TEST_F(MigrationsTest, KilledAtAnyTimeTheyResume) {
  for (int microseconds = 0; microseconds < 20'000; microseconds += 700) {
    unlink(path_.c_str());
    unlink((path_ + "-wal").c_str());
    const pid_t pid = fork();
    if (pid == 0) {
      Result<Database> database = Database::Open(path_);
      if (database.ok()) (void)Migrate(kSteps, &*database);
      _exit(0);
    }
    usleep(static_cast<useconds_t>(microseconds));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    Database database = Opened();
    ASSERT_TRUE(Migrate(kSteps, &database).ok());
    ASSERT_EQ(Version(database), 3);
    ASSERT_EQ(Ask(database, "SELECT sum(y) FROM a"), 14);
    Result<Statement> check = database.Prepare("PRAGMA integrity_check");
    ASSERT_TRUE(check.ok() && *check->Step());
    ASSERT_EQ(check->Text(0), "ok");
  }
}

}  // namespace
}  // namespace tutti::store
