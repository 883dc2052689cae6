#include "server/counting/request_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tutti::counting {
namespace {

using std::chrono::seconds;
using telemetry::OpKind;
using ::testing::HasSubstr;
using ::testing::Not;

class RequestCountsTest : public ::testing::Test {
 protected:
  // Expects that `stage` was counted once, with this time.
  void ExpectStage(const std::string& stage, int took_s) {
    const std::string label = "{stage=\"" + stage + "\"} ";
    EXPECT_THAT(registry_.Expose(), HasSubstr("tutti_stage_seconds_count" + label + "1\n"));
    EXPECT_THAT(registry_.Expose(),
                HasSubstr("tutti_stage_seconds_sum" + label + std::to_string(took_s) + "\n"));
  }
  telemetry::MetricsRegistry registry_;
  telemetry::ServerMetrics metrics_{registry_};
};

TEST_F(RequestCountsTest, AGenerationTellsFourStages) {
  api::Timings timings;
  timings.prepare = seconds(1);
  timings.queue = seconds(2);
  timings.prefill = seconds(3);
  timings.decode = seconds(4);
  CountStages(timings, &metrics_);
  ExpectStage("tokenize", 1);
  ExpectStage("queue", 2);
  ExpectStage("prefill", 3);
  ExpectStage("decode", 4);
}

TEST_F(RequestCountsTest, AnEncodingTellsThreeWhateverProtocolItCameBy) {
  CountStages(api::EncodeTimings{seconds(1), seconds(2), seconds(3)}, &metrics_);
  ExpectStage("tokenize", 1);
  ExpectStage("queue", 2);
  ExpectStage("encode", 3);
}

TEST_F(RequestCountsTest, OfKServeOnlyEncodingsTellThem) {
  kserve::Spent spent;
  spent.input = seconds(1);
  spent.queue = seconds(2);
  spent.infer = seconds(3);
  for (const OpKind op : {OpKind::kGenerate, OpKind::kOther}) CountStages(op, spent, &metrics_);
  EXPECT_THAT(registry_.Expose(), Not(HasSubstr("tutti_stage_seconds_count")));
  CountStages(OpKind::kScore, spent, &metrics_);
  ExpectStage("tokenize", 1);
  ExpectStage("queue", 2);
  ExpectStage("encode", 3);
}

TEST_F(RequestCountsTest, WithoutMetricsNothingIsCounted) {
  CountStages(api::Timings(), nullptr);
  CountStages(api::EncodeTimings(), nullptr);
  CountStages(OpKind::kEmbed, kserve::Spent(), nullptr);
}

TEST(OpOf, AModelCountsAsWhatItDoes) {
  using Task = kserve::ModelConfig::Task;
  EXPECT_EQ(OpOf(Task::kEmbed), OpKind::kEmbed);
  EXPECT_EQ(OpOf(Task::kScore), OpKind::kScore);
  EXPECT_EQ(OpOf(Task::kGenerate), OpKind::kGenerate);
  EXPECT_EQ(OpOf(Task::kOther), OpKind::kOther);
}

}  // namespace
}  // namespace tutti::counting
