// The bench over gRPC: on a fake with scripted failures, and on a small generated checkpoint behind
// the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <thread>

#include "app/config/settings.h"
#include "app/loading/model_registry.h"
#include "app/local_inference.h"
#include "bench/encode_levels.h"
#include "bench/loopback.h"
#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"

namespace tutti::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FakeGrpcTarget final : public GrpcTarget {
 public:
  Result<std::unique_ptr<EncodeClient>> Connect() override {
    return std::unique_ptr<EncodeClient>(std::make_unique<Client>(*this));
  }
  Result<api::ModelStatistics> Statistics() override {
    return Status(StatusCode::kUnimplemented, "not_implemented", "a fake");
  }
  const std::string& summary() const override { return summary_; }
  int connections() const override { return open; }

  int open = 1;
  int refuse_every = 1 << 30;  // calls

 private:
  class Client final : public EncodeClient {
   public:
    explicit Client(FakeGrpcTarget& target) : target_(target) {}
    Result<EncodeReply> Encode(const std::vector<std::string>& texts) override {
      if (++target_.calls_ % target_.refuse_every == 0)
        return ResourceExhausted("queue_full", "no room");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return EncodeReply{1, std::vector<float>(texts.size(), 1.0f), {}};
    }

   private:
    FakeGrpcTarget& target_;
  };
  std::atomic<int> calls_{0};
  const std::string summary_ = "a fake";
};

GrpcLoadOptions Small() {
  GrpcLoadOptions options;
  options.levels = {1, 4};
  options.requests = 40;
  options.warmup = 4;
  options.texts = 2;
  return options;
}

TEST(GrpcLoad, EveryLevelIsATableRowAndFigures) {
  FakeGrpcTarget target;
  std::vector<std::string> lines;
  const auto report =
      BenchGrpc(target, Small(), [&](const std::string& line) { lines.push_back(line); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, IsEmpty());
  EXPECT_EQ(report->json.at("schema"), "tutti.bench.grpc.v1");
  EXPECT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[2], HasSubstr("| 1 | 40 |"));
  const auto& rows = report->json.at("rows").as_array();
  ASSERT_EQ(rows.size(), 2u);
  const int levels[] = {1, 4};
  for (size_t i = 0; i < rows.size(); ++i) {
    const boost::json::value& row = rows[i];
    EXPECT_EQ(row.at("concurrency").as_int64(), levels[i]);
    EXPECT_EQ(row.at("requests").as_int64(), 40);
    EXPECT_LE(row.at("max_in_flight").as_int64(), levels[i]);
    EXPECT_EQ(row.at("connections").as_int64(), 1);
    EXPECT_TRUE(row.at("errors").as_object().empty());
    const boost::json::value& latency = row.at("latency_ms");
    EXPECT_GE(latency.at("p50").as_double(), 1);
    EXPECT_LE(latency.at("p50").as_double(), latency.at("p90").as_double());
    EXPECT_LE(latency.at("p90").as_double(), latency.at("p99").as_double());
    EXPECT_NEAR(row.at("texts_s").as_double(), 2 * row.at("calls_s").as_double(), 1e-6);
  }
}

TEST(GrpcLoad, CallsThatFailAreCountedByTheirCodeAndFailTheBench) {
  FakeGrpcTarget target;
  target.refuse_every = 10;
  GrpcLoadOptions options = Small();
  options.levels = {4};
  options.warmup = 0;
  options.texts = 1;
  // Four calls before the run are those whose answers are known.
  const auto report = BenchGrpc(target, options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, Contains(HasSubstr("queue_full")));
  const boost::json::value& row = report->json.at("rows").as_array().at(0);
  EXPECT_EQ(row.at("errors").at("RESOURCE_EXHAUSTED queue_full").as_int64(), 4);
  EXPECT_EQ(row.at("requests").as_int64(), 36);
  EXPECT_THAT(report->text, HasSubstr("4 x RESOURCE_EXHAUSTED queue_full"));
}

TEST(GrpcLoad, ASecondConnectionFailsTheBench) {
  FakeGrpcTarget target;
  target.open = 2;
  const auto report = BenchGrpc(target, Small(), nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, Contains(HasSubstr("2 connections")));
}

TEST(GrpcLoad, ByTimeALevelLastsAsLongAsItWasTold) {
  FakeGrpcTarget target;
  GrpcLoadOptions options = Small();
  options.levels = {2};
  options.seconds = 0.2;
  const auto report = BenchGrpc(target, options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, IsEmpty());
  const boost::json::value& row = report->json.at("rows").as_array().at(0);
  EXPECT_GE(row.at("seconds").as_double(), 0.2);
  EXPECT_GT(row.at("requests").as_int64(), 10);
}

// A decoder also gives vectors if configured to; it is the smallest model that tests can make.
class GrpcLoadModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    gguf::testing::CheckpointSpec spec;
    spec.type = tensor::DType::kQ4_1;
    file_ = std::make_unique<gguf::testing::TempFile>(gguf::testing::MakeCheckpoint(spec).Build());
  }
  const std::map<std::string, std::string> flags_ = {
      {"threads", "2"}, {"kv-cache-bytes", "16MiB"}, {"context", "256"}, {"encode.decoders", "on"}};
  std::unique_ptr<gguf::testing::TempFile> file_;
};

TEST_F(GrpcLoadModelTest, ThreadsOfOneChannelGetTheVectorsOfTheirTexts) {
  const auto target = LoadGrpcTarget(file_->path(), flags_);
  ASSERT_TRUE(target.ok()) << target.status();
  GrpcLoadOptions options = Small();
  options.levels = {1, 4, 8};
  const auto report = BenchGrpc(**target, options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, IsEmpty());
  for (const boost::json::value& row : report->json.at("rows").as_array())
    EXPECT_EQ(row.at("requests").as_int64(), 40);
}

TEST_F(GrpcLoadModelTest, AServerElsewhereIsReachedByItsAddress) {
  app::Settings::Inputs inputs;
  inputs.flags = flags_;
  const auto settings = app::Settings::Resolve(inputs);
  ASSERT_TRUE(settings.ok()) << settings.status();
  app::LocalInference inference(*settings, nullptr);
  const auto ref = app::ResolveModel(file_->path());
  ASSERT_TRUE(ref.ok()) << ref.status();
  auto opened = inference.Open(*ref);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE(inference.Load(*std::move(opened)).ok());
  const auto server = GrpcLoopback::Start(inference);
  ASSERT_TRUE(server.ok()) << server.status();

  auto target = GrpcEncodeTarget((*server)->address(), "", "");
  ASSERT_TRUE(target.ok()) << target.status();
  GrpcLoadOptions options = Small();
  EXPECT_THAT(BenchGrpc(**target, options, nullptr)->failures, IsEmpty());
  EXPECT_EQ((*target)->connections(), 1);
  EXPECT_EQ((*server)->connections(), 1);

  target = GrpcEncodeTarget((*server)->address(), "nobody", "");
  ASSERT_TRUE(target.ok()) << target.status();
  const Status unknown = BenchGrpc(**target, options, nullptr).status();
  EXPECT_EQ(unknown.reason(), "model_not_found");
  EXPECT_THAT(unknown.message(), HasSubstr("no model \"nobody\"; it has "));
  const auto models = inference.gateway().Models();
  EXPECT_THAT(unknown.message(), HasSubstr(models.front().id));
}

}  // namespace
}  // namespace tutti::bench
