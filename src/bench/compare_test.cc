#include "bench/compare.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace tutti::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Samples = std::vector<double>;

Figure Rate(const Samples& samples, double at = 8) {
  Figure figure;
  figure.metric = "decode rate";
  figure.unit = "tokens/s";
  figure.axis = "sequences";
  figure.at = at;
  figure.samples = samples;
  return figure;
}

boost::json::object ReportOf(const std::vector<Figure>& figures, double read_gb_s = 26,
                             double others_cpu = 0.01) {
  return {{"schema", "tutti.bench.engine.v1"},
          {"machine",
           {{"cpu", "X"},
            {"cores", 2},
            {"threads", 2},
            {"isa", "avx512"},
            {"read_gb_s", read_gb_s},
            {"int8_gops", 1445},
            {"others_cpu", others_cpu}}},
          {"figures", FiguresJson(figures)}};
}

Comparison Compared(const Samples& before, const Samples& after, const CompareOptions& options = {},
                    double read_now = 26, double others_now = 0.01) {
  const auto comparison = CompareReports(ReportOf({Rate(before)}),
                                         ReportOf({Rate(after)}, read_now, others_now), options);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return comparison.ok() ? *comparison : Comparison();
}

Change ChangeOf(const Samples& before, const Samples& after) {
  return Compared(before, after).figures.at(0).change;
}

Samples Scaled(Samples samples, double factor) {
  for (double& sample : samples) sample *= factor;
  return samples;
}

TEST(RankTestTest, CountsOrders) {
  // Each of the 20 orders of 3 and 3 samples is as likely as any other.
  EXPECT_NEAR(RankTest(Samples{1, 2, 3}, Samples{4, 5, 6}), 1.0 / 20, 1e-12);
  EXPECT_NEAR(RankTest(Samples{1, 2, 4}, Samples{3, 5, 6}), 2.0 / 20, 1e-12);
  EXPECT_NEAR(RankTest(Samples{4, 5, 6}, Samples{1, 2, 3}), 1, 1e-12);
  EXPECT_NEAR(RankTest(Samples{1, 2}, Samples{3}), 1.0 / 3, 1e-12);
  EXPECT_EQ(RankTest({}, Samples{1}), 1);
}

TEST(RankTestTest, EqualSamplesAreNoEvidence) {
  EXPECT_GE(RankTest(Samples{1, 1, 1}, Samples{1, 1, 1}), 0.5);
}

TEST(RankTestTest, ManySamplesUseTheNormalDistribution) {
  Samples before(100), after(100);
  std::iota(before.begin(), before.end(), 0.0);
  std::iota(after.begin(), after.end(), 0.5);
  EXPECT_NEAR(RankTest(before, after), 0.45, 0.01);
  EXPECT_LT(RankTest(before, Scaled(after, 1.5)), 0.001);
}

TEST(CompareTest, ATenthSlowerIsSlowerAndATenthFasterIsFaster) {
  const Samples before{100, 101, 99, 102, 98};
  EXPECT_EQ(ChangeOf(before, Scaled(before, 0.9)), Change::kSlower);
  EXPECT_EQ(ChangeOf(before, Scaled(before, 1 / 0.9)), Change::kFaster);
  EXPECT_EQ(ChangeOf(before, Scaled(before, 0.98)), Change::kSame);
}

TEST(CompareTest, TimesAreWorseWhenTheyGrow) {
  Figure before = Rate({20, 20.5, 19.8, 20.1}), after = before;
  before.more_is_better = after.more_is_better = false;
  after.samples = Scaled(after.samples, 1.1);
  auto comparison = CompareReports(ReportOf({before}), ReportOf({after}), {});
  ASSERT_TRUE(comparison.ok());
  EXPECT_THAT(comparison->Slower(), ElementsAre("decode rate, sequences 8"));
  EXPECT_NEAR(comparison->figures[0].middle, 1.1, 0.01);
  comparison = CompareReports(ReportOf({after}), ReportOf({before}), {});
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->figures[0].change, Change::kFaster);
}

TEST(CompareTest, NoiseThatTheBestSampleEscapesIsNotSlower) {
  // Another program took the cores for seven of ten samples.
  const Samples before{100, 101, 99, 102, 98, 100, 101, 99, 100, 102};
  EXPECT_EQ(ChangeOf(before, {70, 65, 72, 68, 101, 71, 66, 99, 100, 64}), Change::kUndecided);
}

TEST(CompareTest, FewSamplesAreUndecided) {
  EXPECT_EQ(ChangeOf({100, 101}, {50, 51}), Change::kUndecided);
  EXPECT_EQ(ChangeOf({100, 101, 102}, {50, 51, 52}), Change::kSlower);
}

TEST(CompareTest, AThresholdIsAnOption) {
  const Samples before{100, 100.5, 99.5, 100.2};
  EXPECT_THAT(Compared(before, Scaled(before, 0.97)).Slower(), IsEmpty());
  EXPECT_EQ(Compared(before, Scaled(before, 0.97), {.threshold = 0.02}).Slower().size(), 1u);
  EXPECT_THAT(Compared(before, Scaled(before, 0.9), {.threshold = 0.2}).Slower(), IsEmpty());
}

TEST(CompareTest, ASlowerMachineIsAllowedFor) {
  const Samples before{100, 101, 99, 102, 98};
  EXPECT_EQ(Compared(before, Scaled(before, 0.8), {}, 26 * 0.8).figures[0].change, Change::kSame);
  EXPECT_EQ(Compared(before, Scaled(before, 0.7), {}, 26 * 0.8).figures[0].change, Change::kSlower);
  EXPECT_THAT(Compared(before, before, {}, 26 * 0.8).Text(), HasSubstr("gives 80 % of"));
}

TEST(CompareTest, NothingIsJudgedWhileOthersUseTheCores) {
  const Samples before{100, 101, 99, 102, 98};
  const Comparison comparison = Compared(before, Scaled(before, 0.5), {}, 26, 0.4);
  EXPECT_THAT(comparison.Slower(), IsEmpty());
  EXPECT_EQ(comparison.Count(Change::kUndecided), 1u);
  EXPECT_THAT(comparison.Text(),
              HasSubstr("other programs used 40 % of the cores during this run"));
}

TEST(CompareTest, ABusyMachineIsJudgedOnRequest) {
  const Samples before{100, 101, 99, 102, 98};
  EXPECT_EQ(Compared(before, Scaled(before, 0.5), {.allow_busy = true}, 26, 0.4).Slower().size(),
            1u);
}

TEST(CompareTest, OtherBenchesAndMachinesAreRefused) {
  const boost::json::object one = ReportOf({Rate({1, 2, 3})});
  boost::json::object other = one;
  other["schema"] = "tutti.bench.serve.v1";
  EXPECT_THAT(CompareReports(other, one, {}).status().message(), HasSubstr("tutti.bench.serve.v1"));
  other = one;
  other["machine"].as_object()["cpu"] = "Y";
  EXPECT_THAT(CompareReports(other, one, {}).status().message(), HasSubstr("--any-machine"));
  EXPECT_TRUE(CompareReports(other, one, {.any_machine = true}).ok());
  other = one;
  other.erase("figures");
  EXPECT_THAT(CompareReports(other, one, {}).status().message(), HasSubstr("has no figures"));
  EXPECT_THAT(CompareReports(one, ReportOf({Rate({1}, 4)}), {}).status().message(),
              HasSubstr("no figure is in both"));
  other["figures"] = boost::json::array{boost::json::object{{"metric", 1}}};
  EXPECT_THAT(CompareReports(other, one, {}).status().message(), HasSubstr("figures[0]: metric"));
}

// Decode rates that `tutti bench engine` measured on two cores of an Intel Xeon (avx512bf16),
// 2026-11-30, while compilers ran on the same cores: runs of 10 repeats that the bench accepted.
const std::vector<Samples> kMeasured = {
    {123, 108, 123, 119, 110, 112, 112, 110, 115, 114},
    {104, 116, 100, 119, 116, 106, 110, 118, 110, 113},
    {920, 972, 989, 894, 936, 911, 936, 1009, 1004, 880},
};

// A run of 10 repeats: deviations from the median, drawn from those that were measured.
Samples DrawnRun(Random& random, double rate) {
  Samples run;
  for (int i = 0; i < 10; ++i) {
    const Samples& measured = kMeasured[random.Below(kMeasured.size())];
    run.push_back(rate * measured[random.Below(measured.size())] / Percentile(measured, 50));
  }
  return run;
}

// How many of `count` comparisons find the rate slower, each after up to three measurements, as
// --compare does.
int CountSlower(double rate, int count) {
  Random random(7);
  int slower = 0;
  for (int i = 0; i < count; ++i) {
    const Samples baseline = DrawnRun(random, 100);
    std::vector<Figure> now;
    Comparison comparison;
    for (int measurement = 0; measurement < 3; ++measurement) {
      AddSamples({Rate(DrawnRun(random, rate))}, &now);
      comparison = Compared(baseline, now[0].samples);
      if (comparison.Suspect().empty()) break;
    }
    slower += comparison.Slower().empty() ? 0 : 1;
  }
  return slower;
}

TEST(CompareTest, MeasuredNoiseIsNotSlower) { EXPECT_EQ(CountSlower(100, 1000), 0); }

TEST(CompareTest, ATenthSlowerIsFoundInMeasuredNoise) { EXPECT_GE(CountSlower(90, 1000), 950); }

TEST(CompareTest, FiguresOfOneSideAreNamed) {
  const auto comparison = CompareReports(ReportOf({Rate({1, 2, 3}), Rate({1, 2, 3}, 4)}),
                                         ReportOf({Rate({1, 2, 3}), Rate({1, 2, 3}, 16)}), {});
  ASSERT_TRUE(comparison.ok());
  EXPECT_THAT(comparison->only_before, ElementsAre("decode rate, sequences 4"));
  EXPECT_THAT(comparison->only_after, ElementsAre("decode rate, sequences 16"));
}

}  // namespace
}  // namespace tutti::bench
