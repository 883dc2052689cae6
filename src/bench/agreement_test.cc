#include "bench/agreement.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::bench {
namespace {

TEST(Agreement, CosineComparesDirections) {
  const std::vector<float> a = {1, 2, 2}, twice = {2, 4, 4}, other = {2, -2, 1}, none = {0, 0, 0};
  EXPECT_NEAR(Cosine(a, twice), 1, 1e-12);
  EXPECT_NEAR(Cosine(a, other), 0, 1e-12);
  EXPECT_EQ(Cosine(a, none), 0);
}

TEST(Agreement, CorrelationComparesVariation) {
  const std::vector<double> a = {1, 2, 3, 4}, scaled = {10, 8, 6, 4}, flat = {1, 1, 1, 1};
  EXPECT_NEAR(Correlation(a, a), 1, 1e-12);
  EXPECT_NEAR(Correlation(a, scaled), -1, 1e-12);
  EXPECT_EQ(Correlation(a, flat), 0);
  EXPECT_NEAR(Correlation(a, {{1, 3, 2, 4}}), 0.8, 1e-12);
}

}  // namespace
}  // namespace tutti::bench
