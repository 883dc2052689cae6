// The closed loop of encoder benches: its counts, and the detection of wrong answers.
#include "bench/encode_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "bench/encode_levels.h"

namespace tutti::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Answers after a moment, with a vector that depends on the text alone unless `mixed` is set.
class FakeEncodeTarget final : public EncodeTarget {
 public:
  Result<std::unique_ptr<EncodeClient>> Connect() override {
    return std::unique_ptr<EncodeClient>(std::make_unique<Client>(*this));
  }
  Result<api::ModelStatistics> Statistics() override {
    const MutexLock lock(mutex_);
    return statistics_;
  }
  const std::string& summary() const override { return summary_; }
  Status Explain(Status failure) override {
    return Unavailable(failure.reason(), failure.message() + "; ask later");
  }

  bool mixed = false;          // vectors depend on how many requests were before
  int64_t reads = 0;           // maximum tokens of a text (words + 2); 0: not reported
  int refuse_after = 1 << 30;  // requests
  Duration took = std::chrono::milliseconds(1);
  std::set<std::string> texts() {
    const MutexLock lock(mutex_);
    return texts_;
  }

 private:
  class Client final : public EncodeClient {
   public:
    explicit Client(FakeEncodeTarget& target) : target_(target) {}
    Result<EncodeReply> Encode(const std::vector<std::string>& texts) override {
      return target_.Answer(texts);
    }

   private:
    FakeEncodeTarget& target_;
  };

  Result<EncodeReply> Answer(const std::vector<std::string>& texts) {
    const int before = requests_++;
    if (before >= refuse_after) return Unavailable("queue_full", "no room");
    std::this_thread::sleep_for(took);
    EncodeReply reply;
    reply.width = 1;
    for (const std::string& text : texts) {
      const float value = static_cast<float>(std::hash<std::string>()(text) % 1000);
      reply.values.push_back(value + (mixed ? static_cast<float>(before) : 0));
    }
    reply.timings.inference = took;
    for (const std::string& text : texts)
      reply.tokens += std::min<int64_t>(reads, 3 + std::count(text.begin(), text.end(), ' '));
    const MutexLock lock(mutex_);
    texts_.insert(texts.begin(), texts.end());
    ++statistics_.executions;
    statistics_.items += texts.size();
    statistics_.busy += took;
    return reply;
  }

  const std::string summary_ = "a fake";
  std::atomic<int> requests_{0};
  Mutex mutex_;
  std::set<std::string> texts_ GUARDED_BY(mutex_);
  api::ModelStatistics statistics_ GUARDED_BY(mutex_);
};

TEST(EncodeLoad, EveryRequestIsSentOnceAndNeverMoreAtATimeThanThereAreClients) {
  FakeEncodeTarget target;
  const EncodeRun run = RunEncodeLoad(target, {4, 2, 16}, 40, 0, 1);
  EXPECT_THAT(run.failures, IsEmpty());
  EXPECT_EQ(run.requests, 40);
  EXPECT_EQ(target.texts().size(), 80u) << "all texts are different";
  EXPECT_LE(run.max_in_flight, 4);
  EXPECT_EQ(run.work.executions, 40u);
  EXPECT_EQ(run.work.items, 80u);
  EXPECT_DOUBLE_EQ(run.batch(), 2);
  EXPECT_GT(run.in_flight(), 1);
  EXPECT_LE(run.in_flight(), 4);
  EXPECT_NEAR(run.inference_s, 1e-3, 1e-9);
  EXPECT_GT(run.busy_share(), 0);
}

TEST(EncodeLoad, AWarmUpCountsNowhere) {
  FakeEncodeTarget target;
  const EncodeRun run = RunEncodeLoad(target, {2, 1, 16}, 10, 30, 1);
  EXPECT_EQ(run.requests, 10);
  EXPECT_EQ(run.work.items, 10u);
}

TEST(EncodeLoad, VectorsThatDependOnTheCompanyAreFound) {
  FakeEncodeTarget target;
  target.mixed = true;
  const EncodeRun run = RunEncodeLoad(target, {4, 1, 16}, 20, 0, 1);
  ASSERT_THAT(run.failures, Not(IsEmpty()));
  EXPECT_THAT(run.failures.front(), HasSubstr("differ"));
}

TEST(EncodeLoad, RequestsThatAreRefusedAreTold) {
  FakeEncodeTarget target;
  target.refuse_after = 12;
  const EncodeRun run = RunEncodeLoad(target, {2, 1, 16}, 20, 0, 1);
  EXPECT_LT(run.requests, 20);
  ASSERT_THAT(run.failures, Not(IsEmpty()));
  EXPECT_THAT(run.failures.front(), HasSubstr("queue_full"));
}

TEST(EncodeGreeting, TextsThatAreCutAreToldOfWithBothLengths) {
  FakeEncodeTarget target;
  EXPECT_EQ(*Greet(target, {1, 1, 64}), "") << "a target that tells no tokens";
  target.reads = 32;
  EXPECT_EQ(*Greet(target, {1, 1, 16}), "");
  EXPECT_EQ(*Greet(target, {1, 1, 32}), "") << "just what the model reads";
  EXPECT_THAT(*Greet(target, {1, 1, 33}), HasSubstr("about 33 tokens"));
  EXPECT_THAT(*Greet(target, {1, 1, 512}), HasSubstr("reads 32 of each"));
}

TEST(EncodeGreeting, ATargetThatRefusesEverythingIsAnErrorAndNoTable) {
  FakeEncodeTarget target;
  target.refuse_after = 0;
  std::vector<std::string> lines;
  const auto report =
      BenchEncodeLevels(target, {}, [&](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(report.status().reason(), "queue_full");
  EXPECT_EQ(report.status().message(), "no room; ask later") << "as the target explains it";
  EXPECT_EQ(lines.size(), 1u);
}

TEST(EncodeLevels, EachIsARowOfTheReportAndAWrongAnswerFailsIt) {
  FakeEncodeTarget target;
  EncodeLevelsOptions options;
  target.reads = 12;
  options.levels = {1, 4};
  options.requests = 20;
  options.warmup = 0;
  std::vector<std::string> lines;
  const auto good =
      BenchEncodeLevels(target, options, [&](const std::string& line) { lines.push_back(line); });
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(good->failures, IsEmpty());
  EXPECT_EQ(good->json.at("schema"), "tutti.bench.encode.v1");
  EXPECT_EQ(good->json.at("passed"), true);
  EXPECT_TRUE(good->json.at("machine").is_object());
  const auto& rows = good->json.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("concurrency").to_number<int>(), options.levels[i]);
    EXPECT_EQ(rows[i].at("requests").to_number<int>(), 20);
    EXPECT_EQ(rows[i].at("tokens_read").to_number<int>(), 12);
  }
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(lines.front(), "a fake");

  target.mixed = true;
  const auto bad = BenchEncodeLevels(target, options, nullptr);
  ASSERT_TRUE(bad.ok()) << bad.status();
  EXPECT_THAT(bad->failures, Contains(HasSubstr("at 4 clients: ")));
  EXPECT_EQ(bad->json.at("passed"), false);
}

TEST(Knee, ADeviceOfOneLaneIsExplainedAndAConcurrencyRecommended) {
  FakeEncodeTarget target;
  target.took = std::chrono::milliseconds(10);  // long, compared with the delays of a busy machine
  KneeOptions options;
  options.levels = {1, 2, 4};
  options.requests = 60;
  options.warmup = 2;
  options.p99_limit_ms = 1000;
  options.gated = false;  // times are unreliable during tests
  const auto report = BenchKnee(target, options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, IsEmpty());
  EXPECT_EQ(report->json.at("rows").get_array().size(), 3u);
  EXPECT_EQ(report->json.at("recommended").at("concurrency").to_number<int>(), 4)
      << "sleeps run at the same time, so the most callers get the most done";
}

}  // namespace
}  // namespace tutti::bench
