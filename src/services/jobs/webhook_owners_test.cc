#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "services/jobs/job_rows.h"
#include "services/webhooks/webhook_rows.h"

namespace tutti::jobs {
namespace {

using EventOwners = std::map<std::string, std::string>;  // by job

class WebhookOwnersTest : public ::testing::Test {
 protected:
  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  void Migrate(bool owners) {
    const std::vector<store::Migration> tables = JobMigrations();
    const Status status =
        store::Migrate(std::span(tables).first(owners ? tables.size() : 3), &database_);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Ends(const std::string& id, const std::string& owner) {
    JobRow row;
    row.id = id;
    row.owner = owner;
    row.caller = "{}";
    row.kind = "chat.completions";
    row.deadline_ms = 1'000'000;
    row.request = "{}";
    row.webhook = "https://example.com/" + id;
    ASSERT_TRUE(InsertJob(database_, &row, std::nullopt, {}).ok());
    ASSERT_TRUE(CancelQueued(database_, owner, id, 200, {}).ok());
  }
  EventOwners Owners() {
    auto rows = database_.Prepare("SELECT subject, owner FROM webhook_event");
    CHECK(rows.ok()) << rows.status();
    EventOwners owners;
    for (auto more = rows->Step(); more.ok() && *more; more = rows->Step())
      owners[std::string(rows->Text(0))] = rows->Text(1);
    return owners;
  }

  store::Database database_ = Opened();
};

TEST_F(WebhookOwnersTest, AnEventIsItsJobsOwners) {
  Migrate(true);
  Ends("job_1", "a");
  Ends("job_2", "b");
  EXPECT_EQ(Owners(), (EventOwners{{"job_1", "a"}, {"job_2", "b"}}));
}

TEST_F(WebhookOwnersTest, EventsThatWaitedBeforeAreToo) {
  Migrate(false);
  ASSERT_TRUE(store::Run(database_,
                         "INSERT INTO job VALUES(NULL, 'job_1', 'a', '{}', 'c', 0, 1, 0, "
                         "3, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, NULL, NULL, '{}', '', '')")
                  .ok());
  ASSERT_TRUE(webhooks::AddWish(database_, "job_1", "https://example.com/job_1").ok());
  ASSERT_TRUE(store::Run(database_, "UPDATE job SET state=4").ok());
  Migrate(true);
  EXPECT_EQ(Owners(), (EventOwners{{"job_1", "a"}}));
  Ends("job_2", "b");
  EXPECT_EQ(Owners(), (EventOwners{{"job_1", "a"}, {"job_2", "b"}}));
}

}  // namespace
}  // namespace tutti::jobs
