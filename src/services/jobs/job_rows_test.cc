#include "services/jobs/job_rows.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.h"

namespace tutti::jobs {
namespace {

constexpr int64_t kLease = 30'000;

class JobRowsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store::Migrate(JobMigrations(), &database_).ok()); }

  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  Result<bool> Insert(const std::string& id, const std::string& owner = "t",
                      int64_t deadline_ms = 1'000'000, int64_t run_at_ms = 0,
                      const std::optional<IdempotencyKey>& key = std::nullopt) {
    JobRow row;
    row.id = id;
    row.owner = owner;
    row.caller = "{}";
    row.kind = "chat.completions";
    row.run_at_ms = run_at_ms;
    row.deadline_ms = deadline_ms;
    row.request = "{\"n\":1}";
    Result<bool> added = InsertJob(database_, &row, key, limits_);
    last_ = row;
    return added;
  }
  std::vector<JobRow> Claim(int64_t most = 10, int64_t now_ms = 100) {
    Result<std::vector<JobRow>> claimed = ClaimJobs(database_, now_ms, kLease, most, &cursor_);
    CHECK(claimed.ok()) << claimed.status();
    return *std::move(claimed);
  }
  JobRow ClaimOne(int64_t now_ms = 100) {
    std::vector<JobRow> claimed = Claim(1, now_ms);
    CHECK(claimed.size() == 1) << "nothing to claim";
    return claimed[0];
  }
  static std::string Ids(const std::vector<JobRow>& rows) {
    std::string ids;
    for (const JobRow& row : rows) ids += row.id + " ";
    return ids;
  }
  bool Finish(JobRow row, JobState state = JobState::kSucceeded, const std::string& result = "{}",
              int64_t now_ms = 200) {
    row.state = state;
    row.result = result;
    const Result<bool> mine = FinishJob(database_, row, now_ms, limits_);
    EXPECT_TRUE(mine.ok()) << mine.status();
    return mine.ok() && *mine;
  }
  JobRow Load(const std::string& id, const std::string& owner = "t") {
    const auto row = LoadJob(database_, owner, id);
    CHECK(row.ok() && row->has_value()) << id;
    return **row;
  }
  int64_t Total(const std::string& column, const std::string& owner = "t") {
    Result<store::Statement> row =
        database_.Prepare("SELECT " + column + " FROM job_total WHERE owner=?1");
    CHECK(row.ok());
    const Result<bool> found = row->Bind(owner).Step();
    return found.ok() && *found ? row->Int(0) : -1;
  }

  store::Database database_ = Opened();
  std::optional<std::string> cursor_;
  JobLimits limits_;
  JobRow last_;
};

// All by their ids, as they were before and as they are given now.
TEST_F(JobRowsTest, WhatGetsItsIdFromItsRowIsFoundByIt) {
  ASSERT_TRUE(*Insert("named"));
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(*Insert(""));
    ids.push_back(last_.id);
    EXPECT_EQ(last_.id.size(), 36u);
    EXPECT_EQ(Load(ids.back()).number, i + 2);
  }
  EXPECT_EQ(Load("named").number, 1);
  EXPECT_FALSE(LoadJob(database_, "u", ids[0])->has_value()) << "another owner's";
  EXPECT_EQ(*OwnerOf(database_, ids[1]), "t");
  EXPECT_EQ(Ids(*ListJobs(database_, "t", {.after = ids[1]})), ids[0] + " named ");
  EXPECT_TRUE(*CancelQueued(database_, "t", ids[2], 1, limits_));
  EXPECT_EQ(PlaceOf(database_, Load(ids[1]))->before, 2);
  std::string changed = ids[0];
  changed.back() = changed.back() == '0' ? '1' : '0';
  EXPECT_FALSE(LoadJob(database_, "t", changed)->has_value());
  EXPECT_FALSE(OwnerOf(database_, changed)->has_value());
  // The number of a deleted row is reused, its id is not.
  ASSERT_TRUE(store::Run(database_, "DELETE FROM job WHERE number=4").ok());
  ASSERT_TRUE(*Insert(""));
  EXPECT_EQ(last_.number, 4);
  EXPECT_FALSE(LoadJob(database_, "t", ids[2])->has_value());
}

TEST_F(JobRowsTest, TwoClaimsNeverGetOneJob) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(*Insert("j" + std::to_string(i)));
  EXPECT_EQ(Ids(Claim(3)), "j0 j1 j2 ");
  EXPECT_EQ(Ids(Claim(3)), "j3 j4 ");
  EXPECT_EQ(Ids(Claim(3)), "");
  EXPECT_EQ(Total("running"), 5);
}

TEST_F(JobRowsTest, WhoHasLostItsLeaseChangesNothing) {
  ASSERT_TRUE(*Insert("j"));
  const JobRow first = ClaimOne();
  EXPECT_EQ(first.request, "{\"n\":1}");
  ASSERT_EQ(*SweepLeases(database_, 100 + kLease, false, limits_), 1);
  const JobRow second = ClaimOne(200 + kLease);
  EXPECT_EQ(second.epoch, first.epoch + 1);
  EXPECT_EQ(second.attempt, 2);
  EXPECT_FALSE(*RenewLease(database_, first, 999'999, 5));
  EXPECT_FALSE(Finish(first, JobState::kSucceeded, "late"));
  EXPECT_FALSE(*RequeueJob(database_, first, 0, true));
  EXPECT_TRUE(*RenewLease(database_, second, 999'999, 5));
  EXPECT_EQ(*SweepLeases(database_, 500'000, false, limits_), 0) << "its lease was renewed";
  EXPECT_TRUE(Finish(second, JobState::kSucceeded, "in time"));
  EXPECT_FALSE(Finish(second, JobState::kSucceeded, "again")) << "a result is written once";
  EXPECT_EQ(Load("j").result, "in time");
}

TEST_F(JobRowsTest, WithoutAnAttemptLeftItIsDeadAndCanBeReplayed) {
  ASSERT_TRUE(*Insert("j"));
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_EQ(ClaimOne().attempt, attempt);
    ASSERT_EQ(*SweepLeases(database_, 0, true, limits_), 1);
  }
  EXPECT_TRUE(Claim().empty());
  JobRow dead = Load("j");
  EXPECT_EQ(dead.state, JobState::kDead);
  EXPECT_NE(dead.error.find("attempts_exhausted"), std::string::npos) << dead.error;
  EXPECT_FALSE(*ReplayJob(database_, "other", "j", 5000));
  EXPECT_TRUE(*ReplayJob(database_, "t", "j", 5000));
  EXPECT_FALSE(*ReplayJob(database_, "t", "j", 5000)) << "it waits already";
  const JobRow again = ClaimOne(300);
  EXPECT_EQ(again.attempt, 1);
  EXPECT_EQ(again.request, "{\"n\":1}") << "it was kept for that";
  EXPECT_TRUE(Finish(again));
  EXPECT_FALSE(*ReplayJob(database_, "t", "j", 5000)) << "it did not fail";
}

TEST_F(JobRowsTest, ADrainSpendsNoAttempt) {
  ASSERT_TRUE(*Insert("j"));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(*RequeueJob(database_, ClaimOne(), 0, false));
  EXPECT_EQ(ClaimOne().attempt, 1);
}

TEST_F(JobRowsTest, WhatIsReleasedWaitsAgainAsIfItHadNotBegun) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(*Insert("j" + std::to_string(i)));
  const std::vector<JobRow> claimed = Claim(2);
  EXPECT_EQ(*ReleaseJobs(database_), 2);
  EXPECT_FALSE(Finish(claimed[0])) << "it was given back";
  EXPECT_EQ(Load("j0").attempt, 0);
  EXPECT_EQ(Ids(Claim()), "j0 j1 j2 ");
}

// Regression: each position lookup counted all waiting jobs: 100,000 jobs blocked the store's
// thread for milliseconds at each submission.
TEST_F(JobRowsTest, APlaceFarBehindIsTheMostItCanBe) {
  for (int64_t i = 0; i < kCountedBefore + 50; ++i) ASSERT_TRUE(*Insert("j" + std::to_string(i)));
  EXPECT_EQ(PlaceOf(database_, Load("j999"))->before, 999);
  EXPECT_EQ(PlaceOf(database_, Load("j1020"))->before, kCountedBefore + 49);
}

TEST_F(JobRowsTest, TheNearestDeadlineGoesFirstAndOwnersTakeTurns) {
  ASSERT_TRUE(*Insert("a-late", "a", 9'000));
  ASSERT_TRUE(*Insert("a-soon", "a", 1'000));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(*Insert("b" + std::to_string(i), "b"));
  ASSERT_TRUE(*Insert("nobody's", ""));
  EXPECT_EQ(Ids(Claim(4)), "nobody's a-soon b0 a-late ");
  EXPECT_EQ(Ids(Claim(2)), "b1 b2 ");
}

TEST_F(JobRowsTest, AmongManyOwnersNoneIsForgotten) {
  constexpr int kOwners = 150;
  for (int i = 0; i < kOwners; ++i) {
    const std::string owner = "o" + std::to_string(i);
    for (int j = 0; j < 2; ++j) ASSERT_TRUE(*Insert(owner + "-" + std::to_string(j), owner));
  }
  std::map<std::string, int> of;
  for (int claimed = 0; claimed < 2 * kOwners;) {
    const std::vector<JobRow> rows = Claim(7);
    ASSERT_FALSE(rows.empty());
    for (const JobRow& row : rows) ++of[row.owner];
    claimed += static_cast<int>(rows.size());
  }
  EXPECT_EQ(of.size(), static_cast<size_t>(kOwners));
}

TEST_F(JobRowsTest, NothingBeginsBeforeItsTimeOrWhileItsOwnerIsPaused) {
  ASSERT_TRUE(*Insert("later", "t", 1'000'000, 500));
  EXPECT_EQ(Ids(Claim(5, 499)), "");
  ASSERT_TRUE(PauseOwner(database_, "t", true).ok());
  ASSERT_TRUE(PauseOwner(database_, "t", true).ok()) << "twice is once";
  EXPECT_EQ(Ids(Claim(5, 500)), "");
  EXPECT_EQ(*PausedOwners(database_), std::vector<std::string>{"t"});
  ASSERT_TRUE(PauseOwner(database_, "t", false).ok());
  EXPECT_EQ(Ids(Claim(5, 500)), "later ");
}

TEST_F(JobRowsTest, TheSameKeyIsTheSameJobAndAnotherBodyIsRefused) {
  const IdempotencyKey key{"k", std::string(32, 'x')};
  EXPECT_TRUE(*Insert("first", "t", 1000, 0, key));
  EXPECT_FALSE(*Insert("second", "t", 1000, 0, key));
  EXPECT_EQ(last_.id, "first");
  const auto other = Insert("third", "t", 1000, 0, IdempotencyKey{"k", std::string(32, 'y')});
  EXPECT_EQ(other.status().reason(), "idempotency_key_mismatch");
  EXPECT_TRUE(*Insert("theirs", "u", 1000, 0, key)) << "of another owner it is another key";
  EXPECT_TRUE(*Insert("none", "t"));
  EXPECT_TRUE(*Insert("none either", "t")) << "who gives none is never the same";
}

TEST_F(JobRowsTest, WhatWaitsOfAnOwnerIsBoundedInJobsAndBytes) {
  limits_.queued = 2;
  EXPECT_TRUE(Insert("a").ok());
  EXPECT_TRUE(Insert("b").ok());
  EXPECT_EQ(Insert("c").status().reason(), "tenant_queue_full");
  EXPECT_TRUE(Insert("d", "u").ok());
  const JobRow row = ClaimOne();
  EXPECT_TRUE(Insert(row.owner == "t" ? "e" : "f", row.owner).ok()) << "one has begun";
  limits_ = {};
  limits_.request_bytes = Total("request_bytes") + 1;
  EXPECT_EQ(Insert("g").status().reason(), "tenant_queue_full");
}

TEST_F(JobRowsTest, TheOldestResultsGoFirstAndTheirIdsAreKnownAWhile) {
  limits_.result_bytes = 25;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(*Insert("j" + std::to_string(i)));
    EXPECT_TRUE(Finish(ClaimOne(), JobState::kSucceeded, std::string(10, 'r'), 200 + i));
  }
  EXPECT_TRUE(Load("j0").gone);
  EXPECT_FALSE(Load("j1").gone || Load("j2").gone);
  EXPECT_EQ(Total("result_bytes"), 20);
  // Results are dropped by age.
  const int64_t later = 202 + limits_.result_ttl_ms;
  EXPECT_EQ(*DropResults(database_, later, 100, limits_), 2);
  EXPECT_TRUE(Load("j1").gone && Load("j2").gone);
  EXPECT_EQ(Total("result_bytes"), 0);
  EXPECT_EQ(*DropResults(database_, later + limits_.result_ttl_ms * 2, 100, limits_), 3);
  EXPECT_FALSE(LoadJob(database_, "t", "j1")->has_value());
  EXPECT_EQ(Total("jobs"), -1) << "no total of nothing";
}

TEST_F(JobRowsTest, EventsAreBoundedAndGoWithTheResult) {
  const auto events = [&] {
    Result<store::Statement> row = database_.Prepare("SELECT count(*) FROM job_event");
    return row.ok() && row->Step().ok() ? row->Int(0) : -1;
  };
  ASSERT_TRUE(*Insert("j"));
  EXPECT_EQ(events(), 0) << "to accept costs none";
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(*RequeueJob(database_, ClaimOne(), 0, false));
  EXPECT_EQ(events(), 64);
  EXPECT_EQ((*EventAfter(database_, Load("j"), 0))->version, 37) << "the first that is known";
  EXPECT_EQ((*EventAfter(database_, Load("j"), 99))->state, JobState::kRunning);
  EXPECT_FALSE((*EventAfter(database_, Load("j"), 100)).has_value()) << "101 is the job itself";
  EXPECT_TRUE(Finish(ClaimOne()));
  EXPECT_EQ(*DropResults(database_, 200 + limits_.result_ttl_ms, 100, limits_), 1);
  EXPECT_EQ(events(), 0);
  ASSERT_TRUE(*Insert("k"));
  ASSERT_TRUE(*RequeueJob(database_, ClaimOne(), 0, false));
  EXPECT_EQ(events(), 2);
  ASSERT_TRUE(store::Run(database_, "DELETE FROM job").ok());
  EXPECT_EQ(events(), 0);
}

// Regression: stored requests of failed jobs counted against no limit, so failing jobs could fill
// the disk.
TEST_F(JobRowsTest, RequestsKeptOfWhatFailedCountAsResults) {
  ASSERT_TRUE(*Insert("j"));
  const int64_t bytes = Total("request_bytes");
  EXPECT_TRUE(Finish(ClaimOne(), JobState::kFailed, "r"));
  EXPECT_EQ(Total("request_bytes"), 0);
  EXPECT_EQ(Total("result_bytes"), bytes + 1);
  limits_.result_bytes = bytes + 5;
  ASSERT_TRUE(*Insert("k"));
  EXPECT_TRUE(Finish(ClaimOne(), JobState::kDead, "r", 300));
  EXPECT_TRUE(Load("j").gone);
  EXPECT_FALSE(*ReplayJob(database_, "t", "j", 5000)) << "its request went with it";
  EXPECT_EQ(Total("result_bytes"), bytes + 1);
  EXPECT_TRUE(*ReplayJob(database_, "t", "k", 5000));
  EXPECT_EQ(Total("result_bytes"), 0);
  EXPECT_EQ(Total("request_bytes"), bytes);
}

TEST_F(JobRowsTest, WhatWaitedTooLongExpires) {
  ASSERT_TRUE(*Insert("soon", "t", 1'000));
  ASSERT_TRUE(*Insert("late", "t", 2'000));
  EXPECT_EQ(*ExpireJobs(database_, 1'000, 10, limits_), std::vector<std::string>{"soon"});
  EXPECT_EQ(Load("soon").state, JobState::kExpired);
  EXPECT_EQ(Ids(Claim()), "late ");
  EXPECT_TRUE(ExpireJobs(database_, 9'000, 10, limits_)->empty()) << "one that runs ends by itself";
}

TEST_F(JobRowsTest, OthersJobsAreNotThere) {
  ASSERT_TRUE(*Insert("j"));
  EXPECT_FALSE(LoadJob(database_, "u", "j")->has_value());
  EXPECT_FALSE(*CancelQueued(database_, "u", "j", 1, limits_));
  EXPECT_TRUE(ListJobs(database_, "u", {})->empty());
  EXPECT_EQ(ListJobs(database_, "u", {.after = "j"}).status().reason(), "not_found");
  EXPECT_TRUE(*CancelQueued(database_, "t", "j", 1, limits_));
  EXPECT_FALSE(*CancelQueued(database_, "t", "j", 1, limits_));
  EXPECT_EQ(Load("j").state, JobState::kCancelled);
  EXPECT_EQ(Total("request_bytes"), 0);
}

TEST_F(JobRowsTest, ListsAreInOrderByPagesAndStates) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(*Insert("j" + std::to_string(i)));
  EXPECT_TRUE(Finish(ClaimOne()));
  EXPECT_TRUE(Finish(ClaimOne(), JobState::kDead));
  EXPECT_EQ(Ids(*ListJobs(database_, "t", {.limit = 3})), "j4 j3 j2 ");
  EXPECT_EQ(Ids(*ListJobs(database_, "t", {.after = "j2", .limit = 3})), "j1 j0 ");
  EXPECT_EQ(Ids(*ListJobs(database_, "t", {.after = "j2", .ascending = true})), "j3 j4 ");
  EXPECT_EQ(Ids(*ListJobs(database_, "t", {.states = {JobState::kQueued}})), "j4 j3 j2 ");
  EXPECT_EQ(
      Ids(*ListJobs(database_, std::nullopt, {.states = {JobState::kFailed, JobState::kDead}})),
      "j1 ");
}

TEST_F(JobRowsTest, APlaceCountsWhatGoesBefore) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(*Insert("j" + std::to_string(i)));
  ASSERT_TRUE(*Insert("theirs", "u"));
  const QueuePlace place = *PlaceOf(database_, Load("j2"));
  EXPECT_EQ(place.before, 2);
  EXPECT_EQ(place.owners, 2);
  EXPECT_EQ(place.waiting, 4);
}

// A store of an earlier version: its jobs keep their ids, totals and webhooks, also when migrated
// back.
TEST(JobTablesTest, JobsOfAnEarlierStoreAreKeptBothWays) {
  Result<store::Database> opened = store::Database::Open("");
  ASSERT_TRUE(opened.ok());
  store::Database& database = *opened;
  std::vector<store::Migration> all = JobMigrations();
  all.pop_back();  // kJobEvents, which came later
  const std::span<const store::Migration> before = std::span(all).first(all.size() - 1);
  ASSERT_TRUE(store::Migrate(before, &database).ok());
  for (const std::string id : {"a", "b", "c"}) {
    ASSERT_TRUE(store::Run(database,
                           "INSERT INTO job VALUES(NULL, ?1, 't', '{}', 'chat.completions', 0, 1, "
                           "0, 3, 0, 0, 1, 0, 0, 0, 1000000, 0, 0, 0, 'key ' || ?1, x'00', "
                           "'request', '', '')",
                           id)
                    .ok());
  }
  ASSERT_TRUE(store::Run(database, "INSERT INTO webhook VALUES('b', 'http://x.example/')").ok());
  ASSERT_TRUE(store::Run(database, "UPDATE job SET state=6, result='r' WHERE id='c'").ok());
  const auto number = [&](const std::string& sql) {
    Result<store::Statement> row = database.Prepare(sql);
    return row.ok() && row->Step().ok() ? row->Int(0) : -1;
  };
  EXPECT_EQ(number("SELECT result_bytes FROM job_total"), 1);

  ASSERT_TRUE(store::Migrate(all, &database).ok());
  EXPECT_EQ(number("SELECT result_bytes FROM job_total"), 8) << "with the request that is kept";
  EXPECT_EQ(number("SELECT request_bytes FROM job_total"), 14);
  EXPECT_TRUE((*LoadJob(database, "t", "b"))->number == 2);
  std::optional<std::string> cursor;
  const auto claimed = ClaimJobs(database, 100, 30'000, 2, &cursor);
  ASSERT_TRUE(claimed.ok() && claimed->size() == 2) << claimed.status();
  JobRow done = (*claimed)[1];
  done.state = JobState::kSucceeded;
  done.result = "{}";
  EXPECT_TRUE(*FinishJob(database, done, 200, {}));
  EXPECT_EQ(number("SELECT count(*) FROM webhook_event"), 1) << "its end is told";
  JobRow fresh;
  fresh.owner = "t";
  fresh.caller = "{}";
  fresh.kind = "chat.completions";
  fresh.request = "request";
  ASSERT_TRUE(*InsertJob(database, &fresh, std::nullopt, {}));

  ASSERT_TRUE(store::Migrate(before, &database).ok());
  EXPECT_EQ(number("SELECT count(*) FROM job WHERE id='" + fresh.id + "' AND number=4"), 1);
  EXPECT_EQ(number("SELECT result_bytes FROM job_total"), 3) << "results alone, as it was";
  EXPECT_EQ(number("SELECT queued*10+running FROM job_total"), 11);
  ASSERT_TRUE(store::Run(database, "DELETE FROM job WHERE id='b'").ok());
  EXPECT_EQ(number("SELECT count(*) FROM webhook"), 0);

  ASSERT_TRUE(store::Migrate(all, &database).ok()) << "and once more";
  EXPECT_TRUE((*LoadJob(database, "t", fresh.id)).has_value());
  EXPECT_FALSE((*LoadJob(database, "t", "b")).has_value());
}

TEST(JobTablesTest, JobsOfAStoreWithoutEventsHaveThemFromThenOn) {
  Result<store::Database> opened = store::Database::Open("");
  ASSERT_TRUE(opened.ok());
  store::Database& database = *opened;
  const std::vector<store::Migration> all = JobMigrations();
  const std::span<const store::Migration> before = std::span(all).first(all.size() - 1);
  ASSERT_TRUE(store::Migrate(before, &database).ok());
  JobRow row;
  row.owner = "t";
  row.caller = "{}";
  row.kind = "chat.completions";
  row.request = "request";
  ASSERT_TRUE(*InsertJob(database, &row, std::nullopt, {}));
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(store::Migrate(all, &database).ok());
    std::optional<std::string> cursor;
    const auto claimed = ClaimJobs(database, 100, 30'000, 1, &cursor);
    ASSERT_TRUE(claimed.ok() && claimed->size() == 1) << claimed.status();
    EXPECT_EQ((*EventAfter(database, claimed->front(), 0))->state, JobState::kQueued);
    EXPECT_TRUE(*RequeueJob(database, claimed->front(), 0, true));
    ASSERT_TRUE(store::Migrate(before, &database).ok()) << "and back";
  }
  EXPECT_TRUE((*LoadJob(database, "t", row.id)).has_value());
}

}  // namespace
}  // namespace tutti::jobs
