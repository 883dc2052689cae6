// The native profile's `subscribe` on `.../ctl`: the states of durable jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "server/mqtt/chat/native_profile.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Jobs of several tenants, reported to watchers like jobs::Jobs::Follow does.
class WatchedJobs {
 public:
  explicit WatchedJobs(const Clock& clock) : clock_(clock) {}

  void Watch(const std::string& tenant, const std::string& id, int64_t version, TimePoint until,
             Services::JobCallback seen) {
    const std::lock_guard lock(mutex_);
    waiters_.push_back({tenant, id, version, until, std::move(seen)});
    TellLocked();
  }
  // Sets the current state of a job.
  void Put(const std::string& tenant, protocol::JobView job) {
    const std::lock_guard lock(mutex_);
    jobs_[tenant][job.id].push_back(std::move(job));
    TellLocked();
  }
  void Look() {
    const std::lock_guard lock(mutex_);
    TellLocked();
  }
  void Stop() {
    const std::lock_guard lock(mutex_);
    for (Waiter& each : std::exchange(waiters_, {}))
      each.seen(Unavailable("draining", "the server is shutting down"));
  }
  size_t waiters() const {
    const std::lock_guard lock(mutex_);
    return waiters_.size();
  }

 private:
  struct Waiter {
    std::string tenant, id;
    int64_t version;
    TimePoint until;
    Services::JobCallback seen;
  };
  void TellLocked() {
    std::erase_if(waiters_, [&](Waiter& each) {
      const auto found = jobs_[each.tenant].find(each.id);
      if (found == jobs_[each.tenant].end()) {
        each.seen(NotFound("not_found", "there is no such job"));
        return true;
      }
      const std::vector<protocol::JobView>& log = found->second;
      const auto next = std::find_if(log.begin(), log.end(), [&](const protocol::JobView& job) {
        return each.version >= 0 && job.version > each.version;
      });
      protocol::JobView job = next == log.end() ? log.back() : *next;
      job.past = job.version != log.back().version;
      if (job.version <= each.version && !protocol::Ended(job.state) && each.until > clock_.Now())
        return false;
      each.seen(std::move(job));
      return true;
    });
  }

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, std::vector<protocol::JobView>>>
      jobs_;  // as they were
  std::vector<Waiter> waiters_;
};

protocol::JobView JobAt(protocol::JobState state, int64_t version,
                        const std::string& id = "job_1") {
  protocol::JobView job;
  job.id = id;
  job.kind = "chat.completions";
  job.state = state;
  job.version = version;
  if (state == protocol::JobState::kSucceeded) job.result = R"({"object":"chat.completion"})";
  return job;
}

class JobFollowsTest : public testing::ProfileFixture {
 protected:
  using State = protocol::JobState;

  JobFollowsTest() {
    watch_job_ = [this](const std::string& tenant, const std::string& id, int64_t version,
                        TimePoint until, Services::JobCallback seen) {
      jobs_.Watch(tenant, id, version, until, std::move(seen));
    };
  }
  void Subscribe(const std::string& more = "", const std::string& id = "job_1",
                 const std::string& user = "alice") {
    EXPECT_TRUE(Accepted(
        Deliver(Topic("ctl", "s", user),
                R"({"type":"subscribe","id":"q","job_id":")" + id + "\"" + more + "}", "", "c1")));
  }
  void Put(protocol::JobView job, const std::string& tenant = "") {
    jobs_.Put(tenant, std::move(job));
    Settle();
  }
  std::vector<std::string> Payloads(const std::string& topic) const {
    std::vector<std::string> payloads;
    for (const testing::Sent& each : port_.sent(topic)) payloads.push_back(each.message.payload);
    return payloads;
  }

  WatchedJobs jobs_{clock_};
};

TEST_F(JobFollowsTest, EachStateIsToldAsItIsPolledAndTheLastHasTheResult) {
  const protocol::JobView queued = JobAt(State::kQueued, 1), running = JobAt(State::kRunning, 2),
                          done = JobAt(State::kSucceeded, 3);
  Put(queued);
  Subscribe();
  Put(running);
  Put(done);
  EXPECT_THAT(Payloads(Topic("out")),
              ElementsAre(protocol::JobEvent(queued), protocol::JobEvent(running),
                          protocol::JobEvent(done)));
  EXPECT_NE(Payloads(Topic("out")).back().find("\"job\":" + protocol::JobJson(done)),
            std::string::npos);
  const testing::Sent last = port_.sent(Topic("out")).back();
  EXPECT_EQ(last.message.qos, 1);
  EXPECT_EQ(last.message.correlation_data, "c1");
  EXPECT_EQ(testing::Property(last.message, "job"), "job_1");
  EXPECT_EQ(testing::Property(last.message, "seq"), "3");
  EXPECT_EQ(testing::Property(last.message, "last"), "true");
  EXPECT_EQ(jobs_.waiters(), 0u);
}

TEST_F(JobFollowsTest, WhoComesLateIsToldTheEndAndWhoHasSeenItNothing) {
  Put(JobAt(State::kSucceeded, 3));
  Subscribe();
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.completed"));
  Subscribe(R"(,"starting_after":2)");
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.completed", "job.completed"));
  port_.Forget();
  Subscribe(R"(,"starting_after":3)");
  EXPECT_THAT(Types(Topic("out")), IsEmpty());
  Subscribe(R"(,"starting_after":4)");
  EXPECT_EQ(Only(Topic("out"), "error").Text("param"), "starting_after");
}

TEST_F(JobFollowsTest, WhoNamesANumberIsToldEachStateBehindIt) {
  Put(JobAt(State::kQueued, 1));
  Put(JobAt(State::kRunning, 2));
  Put(JobAt(State::kFailed, 3));
  Put(JobAt(State::kQueued, 4));
  Subscribe(R"(,"starting_after":0)");
  EXPECT_THAT(Types(Topic("out")),
              ElementsAre("job.queued", "job.running", "job.failed", "job.queued"));
  EXPECT_EQ(testing::Property(port_.sent(Topic("out"))[2].message, "last"), "false")
      << "it was replayed";
  port_.Forget();
  Subscribe(R"(,"starting_after":1)");  // again, while the first waits for news
  Put(JobAt(State::kSucceeded, 5));
  EXPECT_THAT(Types(Topic("out")),
              ElementsAre("job.running", "job.failed", "job.queued", "job.completed"));
  EXPECT_EQ(jobs_.waiters(), 0u);
}

TEST_F(JobFollowsTest, AJobOfAnotherTenantIsNotThere) {
  Put(JobAt(State::kSucceeded, 3), "another");
  Subscribe();
  const testing::Event refused = Only(Topic("out"), "error");
  EXPECT_EQ(refused.Code(), "not_found");
  EXPECT_EQ(refused.Text("id"), "q");
}

TEST_F(JobFollowsTest, WhoSubscribesAgainIsToldOnceAndOneWaits) {
  Put(JobAt(State::kQueued, 1));
  Subscribe();
  for (int i = 0; i < 5; ++i) Subscribe(R"(,"starting_after":1)");
  EXPECT_EQ(jobs_.waiters(), 1u) << "however often it is asked for";
  Put(JobAt(State::kRunning, 2));
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.queued", "job.running"));
  Subscribe();
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.queued", "job.running", "job.running"));
  EXPECT_EQ(jobs_.waiters(), 1u);
  Put(JobAt(State::kSucceeded, 3));
  EXPECT_THAT(Types(Topic("out")),
              ElementsAre("job.queued", "job.running", "job.running", "job.completed"));
  EXPECT_EQ(jobs_.waiters(), 0u);
}

// The number that the client claims to have seen is in the future.
TEST_F(JobFollowsTest, WhoIsAheadOfTheJobIsToldWhatComesBehindThat) {
  Put(JobAt(State::kQueued, 1));
  Subscribe(R"(,"starting_after":2)");
  Put(JobAt(State::kRunning, 2));
  Put(JobAt(State::kSucceeded, 3));
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.completed"));
}

TEST_F(JobFollowsTest, AWaitThatEndsWithoutNewsGoesOnInSilence) {
  Put(JobAt(State::kQueued, 1));
  Subscribe();
  for (int i = 0; i < 3; ++i) {
    Advance(std::chrono::seconds(protocol::kMaxWaitSeconds + 1));
    jobs_.Look();
    Settle();
    EXPECT_EQ(jobs_.waiters(), 1u);
  }
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.queued"));
  Put(JobAt(State::kFailed, 2));
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.queued", "job.failed"));
}

TEST_F(JobFollowsTest, OfAUserThatIsAwayOnlyTheEndIsPublished) {
  Put(JobAt(State::kQueued, 1));
  Subscribe();
  Subscribe("", "job_1", "bob");
  Deliver("llm/v1/alice/status", R"({"online":false})");
  Put(JobAt(State::kRunning, 2));
  Put(JobAt(State::kSucceeded, 3));
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.queued", "job.completed"));
  EXPECT_THAT(Types(Topic("out", "s", "bob")),
              ElementsAre("job.queued", "job.running", "job.completed"));
}

TEST_F(JobFollowsTest, OneUserFollowsOnlySoManyAndOneThatEndedMakesRoom) {
  profile_options_.follows.per_user = 2;
  profile_options_.follows.all = 3;
  Again();
  for (const char* const id : {"job_1", "job_2", "job_3", "job_4"})
    Put(JobAt(State::kQueued, 1, id));
  Subscribe("", "job_1");
  Subscribe("", "job_2");
  Subscribe("", "job_3");
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "tenant_concurrency");
  Subscribe("", "job_1", "bob");
  Subscribe("", "job_2", "bob");
  EXPECT_EQ(Only(Topic("out", "s", "bob"), "error").Code(), "overloaded");
  Put(JobAt(State::kSucceeded, 2, "job_1"));
  port_.Forget();
  Subscribe("", "job_3");
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.queued"));
}

TEST_F(JobFollowsTest, AResultThatNoMessageHoldsIsFetchedElsewhere) {
  protocol::JobView large = JobAt(State::kSucceeded, 3);
  large.result = "\"" + std::string(1 << 20, 'x') + "\"";
  Put(large);
  Subscribe();
  const testing::Event refused = Only(Topic("out"), "error");
  EXPECT_EQ(refused.Code(), "request_too_large");
  EXPECT_NE(refused.Text("message").find("/v1/jobs/job_1"), std::string::npos);
}

TEST_F(JobFollowsTest, AServerThatStopsSaysSo) {
  Put(JobAt(State::kQueued, 1));
  Subscribe();
  jobs_.Stop();
  Settle();
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "draining");
  EXPECT_EQ(jobs_.waiters(), 0u);
}

TEST_F(JobFollowsTest, WhatIsToldWhenTheProfileIsGoneIsNobodys) {
  Put(JobAt(State::kQueued, 1));
  Subscribe();
  profile_.reset();
  jobs_.Put("", JobAt(State::kSucceeded, 2));
  EXPECT_THAT(Types(Topic("out")), ElementsAre("job.queued"));
}

class NoJobsTest : public testing::ProfileFixture {};

TEST_F(NoJobsTest, WithoutJobsASubscribeIsRefused) {
  Deliver(Topic("ctl"), R"({"type":"subscribe","id":"q","job_id":"job_1"})");
  EXPECT_EQ(Only(Topic("out"), "error").Code(), "not_implemented");
}

}  // namespace
}  // namespace tutti::mqtt::chat
