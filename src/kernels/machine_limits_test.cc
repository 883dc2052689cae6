#include "kernels/machine_limits.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/threads.h"
#include "kernels/bench/measure_gemm.h"

namespace tutti::kernels {
namespace {

TEST(MachineLimits, AreMeasuredForEveryInstructionSetAndOrdered) {
  const int threads = std::min(2, UsableCores());
  double scalar_int8 = 0;
  for (Isa isa : DetectIsas()) {
    const MachineLimits limits = MeasureMachineLimits(isa, threads);
    EXPECT_EQ(limits.isa, isa);
    EXPECT_EQ(limits.threads, threads);
    // Far below any machine that can run this, far above a loop that was optimised away.
    EXPECT_GT(limits.read_bytes_per_s, 1e8);
    EXPECT_LT(limits.read_bytes_per_s, 1e13);
    EXPECT_GT(limits.int8_ops_per_s, 1e7);
    EXPECT_LT(limits.int8_ops_per_s, 1e14);
    EXPECT_GT(limits.float32_ops_per_s, 1e7);
    EXPECT_LT(limits.float32_ops_per_s, 1e14);
    if (isa == Isa::kScalar) scalar_int8 = limits.int8_ops_per_s;
    if (isa == Isa::kAvx512Vnni) {
      EXPECT_GT(limits.int8_ops_per_s, 4 * scalar_int8);
    }
  }
}

TEST(MeasureGemm, ChecksAnswersAndReportsConsistentRates) {
  MachineLimits limits{};
  limits.int8_ops_per_s = 1e12;
  limits.float32_ops_per_s = 1e11;
  limits.read_bytes_per_s = 1e10;
  GemmBenchOptions options;
  options.threads = 2;
  options.formats = {WeightFormat::kQ4_1, WeightFormat::kBf16};
  options.shapes = {{96, 64}};
  options.rows = {1, 9};
  options.cold_bytes = 1 << 20;
  options.seconds_per_point = 0.001;
  const auto rows = MeasureGemm(ScalarGemmKernels(), limits, options);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 4u);
  for (const GemmBenchRow& row : *rows) {
    EXPECT_GT(row.seconds, 0);
    EXPECT_NEAR(row.ops_per_s * row.seconds, 2.0 * row.rows * 96 * 64, 1);
    EXPECT_NEAR(row.fraction_of_read, row.bytes_per_s / 1e10, 1e-9);
    const double peak = row.format == WeightFormat::kBf16 ? 1e11 : 1e12;
    EXPECT_NEAR(row.fraction_of_peak, row.ops_per_s / peak, 1e-9);
  }
}

TEST(MeasureGemm, RefusesToTimeAWrongKernel) {
  GemmKernels wrong = ScalarGemmKernels();
  wrong.gemm = [](const GemmArgs& args, int32_t begin, int32_t end, std::byte* scratch) {
    ScalarGemmKernels().gemm(args, begin, end, scratch);
    if (begin == 0 && end > 1) args.out[5] += 1.0f;
  };
  GemmBenchOptions options;
  options.formats = {WeightFormat::kQ8_0};
  options.shapes = {{64, 64}};
  options.rows = {3};
  options.cold_bytes = 0;
  const auto rows = MeasureGemm(wrong, MachineLimits{}, options);
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(rows.status().message(),
              ::testing::HasSubstr("differs from the scalar oracle at row 0"));
}

}  // namespace
}  // namespace tutti::kernels
