// Compares every table with float64, and checks the guarantee about bits: a sequence alone, in a
// batch and cut into other items gives the same ones.
#include "kernels/span_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/aligned_buffer.h"
#include "kernels/kernels.h"
#include "kernels/spmd.h"

namespace tutti::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A batch of sequences with its matrices. Columns lie as k, 16 floats of nothing, q, v.
struct Batch {
  SpanAttentionShape shape;
  std::vector<int32_t> offsets = {0};
  std::vector<float> qkv;
  std::vector<float> out;
  std::vector<float> bias;  // [heads][2 * half + 1] of distances from -half; or empty
  int32_t reach = 0;
  // [heads * head_dim][each] of distances from -each / 2; or empty.
  std::vector<float> relative_keys, relative_queries;
  int32_t farthest = 0;

  explicit Batch(const SpanAttentionShape& s) : shape(s) {}

  size_t width() const { return static_cast<size_t>(shape.heads * shape.head_dim); }
  size_t stride() const { return 3 * width() + 16; }
  int32_t rows() const { return offsets.back(); }
  float* row(int32_t r) { return qkv.data() + static_cast<size_t>(r) * stride(); }
  const float* row(int32_t r) const { return qkv.data() + static_cast<size_t>(r) * stride(); }
  size_t q_column() const { return width() + 16; }
  size_t v_column() const { return 2 * width() + 16; }

  // Values of deviation about 1.2, so that softmax is neither flat nor a single peak.
  void Add(int32_t tokens, uint64_t seed) {
    Random random(seed);
    offsets.push_back(rows() + tokens);
    const size_t begin = qkv.size();
    qkv.resize(static_cast<size_t>(rows()) * stride());
    for (size_t i = begin; i < qkv.size(); ++i) {
      const uint64_t bits = random.Next();
      double sum = -2;
      for (int part = 0; part < 64; part += 16)
        sum += static_cast<double>(bits >> part & 0xFFFF) / 65536.0;
      qkv[i] = static_cast<float>(2 * sum);
    }
    out.assign(static_cast<size_t>(rows()) * (width() + 3), -5.0f);
  }

  SpanAttentionArgs Args() {
    SpanAttentionArgs args{shape, qkv.data(), stride(),   q_column(),
                           0,     v_column(), out.data(), width() + 3};
    if (!bias.empty()) {
      args.bias_stride = bias.size() / static_cast<size_t>(shape.heads);
      args.bias = bias.data() + args.bias_stride / 2;
      args.reach = reach;
    }
    if (!relative_keys.empty()) {
      const size_t each = RelativeStride();
      args.relative = {relative_keys.data() + each / 2, relative_queries.data() + each / 2, each,
                       farthest};
    }
    return args;
  }
  size_t RelativeStride() const { return relative_keys.size() / width(); }
  // Random terms of distances, which stay the same from `farthest_distance` on.
  void Relative(int32_t farthest_distance) {
    Random random(78);
    farthest = farthest_distance;
    const int32_t half = farthest + kSpanTileRows;
    for (std::vector<float>* terms : {&relative_keys, &relative_queries}) {
      for (size_t column = 0; column < width(); ++column) {
        const size_t begin = terms->size();
        for (int32_t d = -half; d <= half; ++d)
          terms->push_back(static_cast<float>(random.Uniform() * 2 - 1));
        float* const middle = terms->data() + begin + half;
        for (int32_t d = farthest + 1; d <= half; ++d) {
          middle[d] = middle[farthest];
          middle[-d] = middle[-farthest];
        }
      }
    }
  }
  // The terms of dim `column` of all heads between these rows.
  double RelativeTerms(int32_t r, int32_t t, size_t column) const {
    if (relative_keys.empty()) return 0;
    const int32_t distance = std::clamp(r - t, -farthest, farthest);
    const size_t at =
        column * RelativeStride() + static_cast<size_t>(farthest + kSpanTileRows + distance);
    return double{row(r)[q_column() + column]} * relative_keys[at] +
           double{row(t)[column]} * relative_queries[at];
  }
  // Random biases of up to 3 for distances up to `longest`, and -inf beyond a reach.
  void Bias(int32_t longest, int32_t reach_of_keys) {
    Random random(77);
    reach = reach_of_keys;
    const int32_t half = (reach > 0 ? reach : longest) + kSpanTileRows;
    for (int32_t head = 0; head < shape.heads; ++head) {
      for (int32_t d = -half; d <= half; ++d) {
        const float value = static_cast<float>(random.Uniform() * 6 - 3);
        bias.push_back(reach > 0 && std::abs(d) > reach ? -kInf : value);
      }
    }
  }
  float BiasOf(int32_t head, int32_t distance) const {
    if (bias.empty()) return 0;
    if (reach > 0 && std::abs(distance) > reach) return -kInf;
    const size_t each = bias.size() / static_cast<size_t>(shape.heads);
    return bias[static_cast<size_t>(head) * each +
                static_cast<size_t>(static_cast<int32_t>(each / 2) + distance)];
  }
  const float* OutRow(int32_t r) const {
    return out.data() + static_cast<size_t>(r) * (width() + 3);
  }

  void Run(const SpanAttentionKernels& kernels, const std::vector<SpanAttentionItem>& items,
           int workers = 1) {
    std::atomic<size_t> next{0};
    RunOnThreads(workers, [&](int) {
      const AlignedBuffer scratch =
          AlignedBuffer::Allocate(SpanAttentionScratchBytes(shape)).value();
      for (size_t i; (i = next.fetch_add(1)) < items.size();)
        kernels.run_item(Args(), items[i], const_cast<std::byte*>(scratch.data()));
    });
  }
  void Run(const SpanAttentionKernels& kernels, int workers = 1) {
    std::vector<SpanAttentionItem> items;
    PlanSpanAttention(shape, offsets, workers, items);
    Run(kernels, items, workers);
  }

  // One row of a head from first principles.
  std::vector<double> Reference(int32_t begin, int32_t end, int32_t r, int32_t head) const {
    const size_t dims = static_cast<size_t>(shape.head_dim);
    const size_t column = static_cast<size_t>(head) * dims;
    std::vector<double> scores;
    for (int32_t t = begin; t < end; ++t) {
      double dot = 0;
      for (size_t d = 0; d < dims; ++d) {
        dot += static_cast<double>(row(r)[q_column() + column + d]) * row(t)[column + d];
        dot += RelativeTerms(r, t, column + d);
      }
      scores.push_back(dot * shape.scale + BiasOf(head, r - t));
    }
    const double greatest = *std::max_element(scores.begin(), scores.end());
    std::vector<double> out_row(dims);
    double sum = 0;
    for (int32_t t = begin; t < end; ++t) {
      const double p = std::exp(scores[static_cast<size_t>(t - begin)] - greatest);
      sum += p;
      for (size_t d = 0; d < dims; ++d) out_row[d] += p * row(t)[v_column() + column + d];
    }
    for (double& x : out_row) x /= sum;
    return out_row;
  }
};

double RelativeError(const std::vector<double>& want, const float* got) {
  double difference = 0;
  double norm = 1e-30;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / norm);
}

bool SameRow(const Batch& a, int32_t row_a, const Batch& b, int32_t row_b) {
  return std::memcmp(a.OutRow(row_a), b.OutRow(row_b), a.width() * sizeof(float)) == 0;
}

SpanAttentionShape Shape(int32_t heads, int32_t head_dim) {
  return {heads, head_dim, static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)))};
}

class SpanAttentionTest : public ::testing::TestWithParam<Isa> {
 protected:
  const SpanAttentionKernels& kernels() const { return KernelsFor(GetParam()).span_attention; }
  bool scalar() const { return GetParam() == Isa::kScalar; }
};
INSTANTIATE_TEST_SUITE_P(All, SpanAttentionTest, ::testing::ValuesIn(DetectIsas()),
                         [](const auto& test) { return std::string(IsaName(test.param)); });

// Every length, three rows of it each: the first, the last and a random one.
TEST_P(SpanAttentionTest, IsTheDefinitionAtEveryLengthTo520) {
  Random random(11);
  double worst = 0;
  for (int32_t length = 1; length <= 520; ++length) {
    Batch batch(Shape(2, 16));
    batch.Add(length, 1000 + static_cast<uint64_t>(length));
    const int32_t some = static_cast<int32_t>(random.Below(static_cast<uint64_t>(length)));
    if (scalar()) {  // whose whole lengths would take seconds
      std::vector<SpanAttentionItem> items;
      for (int32_t r : {0, length - 1, some}) items.push_back({0, length, r, r + 1, 0, 2});
      batch.Run(kernels(), items);
    } else {
      batch.Run(kernels());
    }
    for (int32_t r : {0, length - 1, some}) {
      for (int32_t head = 0; head < 2; ++head) {
        const double error =
            RelativeError(batch.Reference(0, length, r, head), batch.OutRow(r) + head * 16);
        worst = std::max(worst, error);
        ASSERT_LT(error, 3e-6) << "length " << length << " row " << r << " head " << head;
      }
    }
    EXPECT_EQ(batch.OutRow(length - 1)[batch.width()], -5.0f);  // nothing beyond the heads
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST_P(SpanAttentionTest, IsTheDefinitionForEveryHeadDimension) {
  for (int32_t head_dim = 16; head_dim <= 256; head_dim += 16) {
    Batch batch(Shape(3, head_dim));
    for (int32_t length : {1, 5, 16, 33, 140}) batch.Add(length, static_cast<uint64_t>(head_dim));
    batch.Run(kernels());
    for (size_t i = 0; i + 1 < batch.offsets.size(); ++i) {
      const int32_t begin = batch.offsets[i];
      const int32_t end = batch.offsets[i + 1];
      for (int32_t r : {begin, (begin + end) / 2, end - 1}) {
        for (int32_t head = 0; head < 3; ++head) {
          ASSERT_LT(RelativeError(batch.Reference(begin, end, r, head),
                                  batch.OutRow(r) + head * head_dim),
                    3e-6)
              << "head_dim " << head_dim << " length " << end - begin;
        }
      }
    }
  }
}

// Scores of thousands: all weight on one key, no overflow; and of a hundred-millionth: the mean.
TEST_P(SpanAttentionTest, StaysTheDefinitionForSharpAndFlatScores) {
  for (float scale : {100.0f, 1e-9f}) {
    Batch batch({2, 32, scale});
    batch.Add(300, 5);
    batch.Run(kernels());
    for (int32_t r : {0, 150, 299}) {
      // A rounded score of 1e4 is off by up to 1e-3.
      ASSERT_LT(RelativeError(batch.Reference(0, 300, r, 1), batch.OutRow(r) + 32),
                scale > 1 ? 1e-2 : 3e-6);
    }
  }
}

TEST_P(SpanAttentionTest, ASequenceHasTheSameBitsAloneAndInAnyBatch) {
  const std::vector<int32_t> lengths = {16, 1, 130, 7, 64, 257, 16, 33, 40};
  Batch mixed(Shape(4, 32));
  for (size_t i = 0; i < lengths.size(); ++i) mixed.Add(lengths[i], 77 + i);
  mixed.Run(kernels());
  for (size_t i = 0; i < lengths.size(); ++i) {
    Batch alone(mixed.shape);
    alone.Add(lengths[i], 77 + i);
    alone.Run(kernels());
    for (int32_t r = 0; r < lengths[i]; ++r)
      ASSERT_TRUE(SameRow(alone, r, mixed, mixed.offsets[i] + r))
          << "sequence " << i << " row " << r;
  }
}

TEST_P(SpanAttentionTest, AnyCutIntoItemsAndAnyWorkersGiveTheSameBits) {
  Random random(3);
  const int32_t length = 150;
  Batch whole(Shape(3, 48));
  whole.Add(length, 9);
  whole.Run(kernels(), {{0, length, 0, length, 0, 3}});
  for (int trial = 0; trial < 8; ++trial) {
    std::vector<SpanAttentionItem> items;
    for (int32_t head = 0; head < 3; ++head) {
      for (int32_t r = 0; r < length;) {
        const int32_t end = std::min(length, r + static_cast<int32_t>(random.Between(1, 50)));
        items.push_back({0, length, r, end, head, head + 1});
        r = end;
      }
    }
    Batch cut(whole.shape);
    cut.Add(length, 9);
    cut.Run(kernels(), items, 1 + trial % 3);
    ASSERT_EQ(std::memcmp(cut.out.data(), whole.out.data(), whole.out.size() * sizeof(float)), 0);
  }
}

TEST_P(SpanAttentionTest, AddsTheBiasOfEachDistanceWithinReach) {
  for (const int32_t reach : {0, 1, 7, 64, 150}) {
    Batch batch(Shape(3, 32));
    for (const int32_t length : {1, 2, 31, 33, 150, 300, 417})
      batch.Add(length, static_cast<uint64_t>(length));
    batch.Bias(417, reach);
    batch.Run(kernels());
    for (size_t i = 0; i + 1 < batch.offsets.size(); ++i) {
      const int32_t begin = batch.offsets[i], end = batch.offsets[i + 1];
      for (int32_t r = begin; r < end; r += 1 + (end - begin) / 9) {
        for (int32_t head = 0; head < 3; ++head) {
          ASSERT_LT(
              RelativeError(batch.Reference(begin, end, r, head), batch.OutRow(r) + head * 32),
              3e-6)
              << "reach " << reach << " length " << end - begin << " row " << r - begin;
        }
      }
    }
  }
}

TEST_P(SpanAttentionTest, AddsTheTermsOfEachDistance) {
  for (const int32_t farthest : {1, 7, 40, 160, 500}) {
    Batch batch(Shape(2, 32));
    for (const int32_t length : {1, 2, 31, 33, 150, 300, 417})
      batch.Add(length, static_cast<uint64_t>(length));
    batch.Relative(farthest);
    batch.Run(kernels());
    for (size_t i = 0; i + 1 < batch.offsets.size(); ++i) {
      const int32_t begin = batch.offsets[i], end = batch.offsets[i + 1];
      for (int32_t r = begin; r < end; r += 1 + (end - begin) / 9) {
        for (int32_t head = 0; head < 2; ++head) {
          ASSERT_LT(
              RelativeError(batch.Reference(begin, end, r, head), batch.OutRow(r) + head * 32),
              5e-6)
              << "farthest " << farthest << " length " << end - begin << " row " << r - begin;
        }
      }
    }
  }
}

TEST_P(SpanAttentionTest, TermsOfDistancesGiveTheSameBitsForAnyCutAndBatch) {
  Random random(8);
  const int32_t length = 330;
  for (const int32_t farthest : {5, 129, 400}) {
    Batch whole(Shape(2, 32));
    whole.Add(length, 9);
    whole.Relative(farthest);
    Batch cut = whole, mixed(whole.shape);
    whole.Run(kernels(), {{0, length, 0, length, 0, 2}});
    std::vector<SpanAttentionItem> items;
    for (int32_t r = 0; r < length;) {
      const int32_t end = std::min(length, r + static_cast<int32_t>(random.Between(1, 70)));
      items.push_back({0, length, r, end, 0, 1});
      items.push_back({0, length, r, end, 1, 2});
      r = end;
    }
    cut.Run(kernels(), items, 2);
    ASSERT_EQ(std::memcmp(cut.out.data(), whole.out.data(), whole.out.size() * sizeof(float)), 0);
    mixed.Add(43, 1);
    mixed.Add(length, 9);
    mixed.Relative(farthest);
    mixed.Run(kernels(), 3);
    for (int32_t r = 0; r < length; ++r) ASSERT_TRUE(SameRow(mixed, 43 + r, whole, r)) << r;
  }
}

// The other queries of a tile need other keys; a row does not change by it.
TEST_P(SpanAttentionTest, ReachGivesTheSameBitsForAnyCutAndBatch) {
  Random random(8);
  const int32_t length = 330;
  for (const int32_t reach : {0, 5, 40, 129}) {
    Batch whole(Shape(2, 32));
    whole.Add(length, 9);
    whole.Bias(length, reach);
    Batch cut = whole, mixed(whole.shape);
    whole.Run(kernels(), {{0, length, 0, length, 0, 2}});
    std::vector<SpanAttentionItem> items;
    for (int32_t r = 0; r < length;) {
      const int32_t end = std::min(length, r + static_cast<int32_t>(random.Between(1, 70)));
      items.push_back({0, length, r, end, 0, 2});
      r = end;
    }
    cut.Run(kernels(), items, 2);
    ASSERT_EQ(std::memcmp(cut.out.data(), whole.out.data(), whole.out.size() * sizeof(float)), 0);
    mixed.Add(43, 1);
    mixed.Add(length, 9);
    mixed.Bias(length, reach);
    mixed.Run(kernels(), 3);
    for (int32_t r = 0; r < length; ++r) ASSERT_TRUE(SameRow(mixed, 43 + r, whole, r)) << r;
  }
}

TEST_P(SpanAttentionTest, NotANumberStaysInItsOwnSequence) {
  for (float bad : {std::nanf(""), kInf}) {
    for (size_t column : {size_t{3}, size_t{32 * 2 + 16 + 3}, size_t{2 * 32 * 2 + 16 + 3}}) {
      Batch clean(Shape(2, 32));
      for (int32_t length : {20, 45, 9}) clean.Add(length, static_cast<uint64_t>(length));
      Batch broken = clean;
      broken.row(30)[column] = bad;  // k, q or v of the second sequence, first head
      clean.Run(kernels());
      broken.Run(kernels());
      int changed = 0;
      for (int32_t r = 0; r < clean.rows(); ++r) {
        if (r >= 20 && r < 65) {
          bool finite = true;
          for (size_t d = 0; d < 32; ++d) finite = finite && std::isfinite(broken.OutRow(r)[d]);
          changed += finite ? 0 : 1;
          // The second head never saw it.
          EXPECT_EQ(std::memcmp(broken.OutRow(r) + 32, clean.OutRow(r) + 32, 32 * 4), 0);
        } else {
          EXPECT_TRUE(SameRow(clean, r, broken, r)) << r;
        }
      }
      // A query spoils its own row, a value all rows; a key of +inf those whose score is not -inf.
      const bool is_query = column == 32 * 2 + 16 + 3;
      const bool is_key = column == 3;
      if (is_query) {
        EXPECT_EQ(changed, 1);
      } else if (is_key && bad == kInf) {
        EXPECT_THAT(changed, ::testing::AllOf(::testing::Gt(5), ::testing::Lt(40)));
      } else {
        EXPECT_EQ(changed, 45);
      }
    }
  }
}

// An encoder's weights can produce such scores, and so can a mask.
TEST_P(SpanAttentionTest, ScoresOfMinusInfinityWeighNothing) {
  const int32_t length = 200;
  Batch batch(Shape(1, 16));
  batch.Add(length, 21);
  for (int32_t r = 0; r < length; ++r) batch.row(r)[batch.q_column()] = 1.0f;
  // All of the first chunk and some of the second.
  for (int32_t t = 0; t < 150; ++t) batch.row(t)[0] = -kInf;
  batch.Run(kernels());
  for (int32_t r : {0, 149, 199}) {
    ASSERT_LT(RelativeError(batch.Reference(0, length, r, 0), batch.OutRow(r)), 3e-6) << r;
  }
  for (int32_t t = 150; t < length; ++t) batch.row(t)[0] = -kInf;
  batch.Run(kernels());
  for (size_t d = 0; d < 16; ++d) EXPECT_TRUE(std::isnan(batch.OutRow(7)[d]));
}

TEST(SpanAttentionPlan, CoversEveryRowAndHeadOnceTheCostliestFirst) {
  Random random(4);
  for (int trial = 0; trial < 60; ++trial) {
    const SpanAttentionShape shape = Shape(static_cast<int32_t>(random.Between(1, 16)),
                                           16 * static_cast<int32_t>(random.Between(1, 16)));
    std::vector<int32_t> offsets = {0};
    const int64_t sequences = random.Between(0, 12);
    for (int64_t i = 0; i < sequences; ++i) {
      const int64_t longest = random.Chance(0.3) ? 600 : 40;
      offsets.push_back(offsets.back() + static_cast<int32_t>(random.Between(0, longest)));
    }
    std::vector<SpanAttentionItem> items(3);  // what an earlier batch left
    const int workers = static_cast<int>(random.Between(1, 9));
    PlanSpanAttention(shape, offsets, workers, items);
    std::vector<int> covered(static_cast<size_t>(offsets.back() * shape.heads));
    int64_t before = std::numeric_limits<int64_t>::max();
    for (const SpanAttentionItem& item : items) {
      const auto at = std::find(offsets.begin(), offsets.end() - 1, item.first_row);
      ASSERT_NE(at, offsets.end() - 1);
      ASSERT_TRUE(std::find(offsets.begin(), offsets.end(), item.first_row + item.rows) !=
                  offsets.end());
      ASSERT_EQ(item.query_begin % kSpanTileRows, 0);
      ASSERT_LE(item.query_end, item.rows);
      const int64_t pairs = int64_t{item.rows} * (item.query_end - item.query_begin) *
                            (item.head_end - item.head_begin);
      ASSERT_LE(pairs, before);
      before = pairs;
      for (int32_t r = item.query_begin; r < item.query_end; ++r) {
        for (int32_t h = item.head_begin; h < item.head_end; ++h)
          ++covered[static_cast<size_t>((item.first_row + r) * shape.heads + h)];
      }
    }
    EXPECT_THAT(covered, ::testing::Each(1));
  }
}

TEST(SpanAttentionPlan, SharesASingleTextOutAndLeavesManyShortOnesWhole) {
  std::vector<SpanAttentionItem> items;
  PlanSpanAttention(Shape(12, 32), std::vector<int32_t>{0, 512}, 8, items);
  EXPECT_GE(items.size(), 32u);
  PlanSpanAttention(Shape(1, 64), std::vector<int32_t>{0, 512}, 8, items);
  EXPECT_EQ(items.size(), 16u);  // one head: 16 tiles of rows
  std::vector<int32_t> offsets(65);
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<int32_t>(16 * i);
  PlanSpanAttention(Shape(12, 32), offsets, 1, items);
  EXPECT_EQ(items.size(), 64u);
}

TEST(SpanAttentionShape, NamesWhatItCannotRun) {
  EXPECT_EQ(SpanAttentionShapeFault(Shape(12, 32)), nullptr);
  EXPECT_EQ(SpanAttentionShapeFault(Shape(1, 256)), nullptr);
  EXPECT_NE(SpanAttentionShapeFault(Shape(0, 32)), nullptr);
  EXPECT_NE(SpanAttentionShapeFault(Shape(1, 24)), nullptr);
  EXPECT_NE(SpanAttentionShapeFault(Shape(1, 272)), nullptr);
  EXPECT_NE(SpanAttentionShapeFault({1, 32, std::nanf("")}), nullptr);
}

}  // namespace
}  // namespace tutti::kernels
