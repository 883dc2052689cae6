#include "services/cache/semantic_index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace tutti::cache {
namespace {

constexpr size_t kWidth = 384;

std::vector<float> Unit(std::vector<float> vector) {
  double length = 0;
  for (const float value : vector) length += static_cast<double>(value) * value;
  for (float& value : vector) value = static_cast<float>(value / std::sqrt(length));
  return vector;
}
std::vector<float> Draw(Random& random) {
  std::vector<float> vector(kWidth);
  for (float& value : vector) {
    value = 0;
    for (int i = 0; i < 4; ++i) value += static_cast<float>(random.Uniform() - 0.5);
  }
  return Unit(vector);
}
// At that cosine from `vector`.
std::vector<float> At(const std::vector<float>& vector, double cosine, Random& random) {
  std::vector<float> other = Draw(random);
  double dot = 0;
  for (size_t i = 0; i < kWidth; ++i) dot += static_cast<double>(vector[i]) * other[i];
  for (size_t i = 0; i < kWidth; ++i) other[i] -= static_cast<float>(dot * vector[i]);
  other = Unit(other);
  for (size_t i = 0; i < kWidth; ++i)
    other[i] = static_cast<float>(cosine * vector[i] + std::sqrt(1 - cosine * cosine) * other[i]);
  return other;
}

TEST(SemanticIndex, FindsAllThatIsNearAndNothingElse) {
  Random random(1);
  SemanticIndex index(kWidth);
  const std::vector<float> question = Draw(random);
  for (uint64_t tag = 1; tag <= 2000; ++tag) index.Add(Draw(random), tag);
  // A thousand that are just near enough, each found.
  for (uint64_t tag = 10'001; tag <= 11'000; ++tag) index.Add(At(question, 0.9805, random), tag);
  for (uint64_t tag = 20'001; tag <= 20'100; ++tag) index.Add(At(question, 0.9795, random), tag);
  const auto near = index.Near(question, 0.98, 5000);
  EXPECT_EQ(near.size(), 1000u);
  for (const auto& one : near) {
    EXPECT_GE(one.tag, 10'001u);
    EXPECT_LE(one.tag, 11'000u);
    EXPECT_NEAR(one.similarity, 0.9805, 1e-4);
  }
  EXPECT_EQ(index.Near(question, 0.98, 3).size(), 3u);
}

TEST(SemanticIndex, TheNearestFirstAndWhatIsRemovedIsGone) {
  Random random(2);
  SemanticIndex index(kWidth);
  const std::vector<float> question = Draw(random);
  index.Add(At(question, 0.985, random), 1);
  index.Add(question, 2);
  index.Add(At(question, 0.99, random), 3);
  auto near = index.Near(question, 0.98, 8);
  ASSERT_EQ(near.size(), 3u);
  EXPECT_EQ(near[0].tag, 2u);
  EXPECT_EQ(near[1].tag, 3u);
  index.Remove(2);
  index.Remove(77);
  near = index.Near(question, 0.98, 8);
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[0].tag, 3u);
  index.Remove(3);
  index.Remove(1);
  EXPECT_EQ(index.size(), 0u);
  EXPECT_TRUE(index.Near(question, 0.98, 8).empty());
}

TEST(SemanticIndex, OddWidthsAndForeignVectors) {
  SemanticIndex index(3);
  index.Add(std::vector<float>{1, 0, 0}, 1);
  EXPECT_EQ(index.Near(std::vector<float>{1, 0, 0}, 0.98, 8).size(), 1u);
  EXPECT_TRUE(index.Near(std::vector<float>{1, 0}, 0.98, 8).empty());
}

}  // namespace
}  // namespace tutti::cache
