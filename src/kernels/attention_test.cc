#include "kernels/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/testing/attention_test_rig.h"

namespace tutti::kernels::testing {
namespace {

AttentionShape Shape(int32_t heads, int32_t kv_heads, int32_t head_dim,
                     RopeMode mode = RopeMode::kAdjacent) {
  return {heads, kv_heads, head_dim, 1.0f / std::sqrt(static_cast<float>(head_dim)),
          mode,  head_dim};
}
const AttentionShape kSmolShape = Shape(9, 3, 64);

// Relative L2 error of one row of all heads that each form may show on the rig's data.
double Bound(const Variant& variant) {
  if (variant.format == KvFormat::kF32) return 5e-6;
  if (variant.format == KvFormat::kI16) return 2e-3;
  if (variant.format == KvFormat::kI8) return 2e-2;
  return 2e-3;  // half precision
}

class AttentionTest : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(All, AttentionTest, ::testing::ValuesIn(Variants()),
                         [](const auto& test) { return test.param.Name(); });

size_t OutWidth(const Rig& rig) {
  return static_cast<size_t>(rig.shape().heads * rig.shape().head_dim);
}

double ErrorAt(Rig& rig, size_t sequence, int32_t position) {
  return RelativeError(rig.Reference(rig[sequence], position),
                       rig[sequence].out.data() + static_cast<size_t>(position) * OutWidth(rig));
}

// How many positions of [from, tokens) differ in any bit.
int DifferingRows(Rig& rig, size_t a, size_t b, int32_t from = 0) {
  int differing = 0;
  for (int32_t t = from; t < std::min(rig[a].done, rig[b].done); ++t) {
    const size_t at = static_cast<size_t>(t) * OutWidth(rig);
    differing += std::memcmp(&rig[a].out[at], &rig[b].out[at], OutWidth(rig) * sizeof(float)) != 0;
  }
  return differing;
}

TEST_P(AttentionTest, AgreesWithFloat64AroundBlockAndChunkBorders) {
  Rig rig(GetParam(), kSmolShape, 64, 1);
  const size_t s = rig.AddSequence(600);
  rig.Run(s, 64);
  for (int32_t position :
       {0, 1, 15, 16, 30, 31, 32, 33, 63, 64, 65, 254, 255, 256, 257, 511, 512, 513, 599}) {
    EXPECT_LE(ErrorAt(rig, s, position), Bound(GetParam())) << "position " << position;
  }
}

TEST_P(AttentionTest, DecodesALongContextWithinTheBound) {
  const AttentionShape shape = Shape(3, 1, 64);
  Rig rig(GetParam(), shape, 80, 2);
  const size_t s = rig.AddSequence(2000);
  rig.Run(s, 512);
  EXPECT_LE(ErrorAt(rig, s, 1500), Bound(GetParam()));
  EXPECT_LE(ErrorAt(rig, s, 1999), Bound(GetParam()));
}

// The widest heads, and one between: layers without a window of Gemma 4 have 512.
TEST_P(AttentionTest, AgreesWithFloat64ForWideHeads) {
  for (const int32_t head_dim : {336, 512}) {
    const AttentionShape shape = Shape(2, 1, head_dim);
    Rig rig(GetParam(), shape, 30, 2);
    const size_t s = rig.AddSequence(300);
    rig.Run(s, 64);
    for (const int32_t position : {0, 31, 255, 256, 299})
      EXPECT_LE(ErrorAt(rig, s, position), Bound(GetParam())) << head_dim << ", " << position;
    const size_t copy = rig.AddCopy(s);
    rig.Run(copy, 7);
    EXPECT_EQ(DifferingRows(rig, s, copy), 0) << head_dim;
  }
}

TEST_P(AttentionTest, GivesTheSameBitsForEveryPrefillChunkSize) {
  Rig rig(GetParam(), kSmolShape, 400, 3);
  const size_t whole = rig.AddSequence(577);
  rig.Run(whole, 577);
  for (int32_t chunk : {1, 3, 8, 9, 31, 32, 33, 64, 128, 512}) {
    const size_t copy = rig.AddCopy(whole);
    rig.Run(copy, chunk);
    EXPECT_EQ(DifferingRows(rig, whole, copy), 0) << "chunk " << chunk;
  }
}

TEST_P(AttentionTest, GivesTheSameBitsOnAnyNumberOfWorkers) {
  Rig rig(GetParam(), kSmolShape, 400, 4);
  const size_t one = rig.AddSequence(900);
  rig.Run(one, 300, 1);
  for (int workers : {2, 3, 7}) {
    for (int32_t chunk : {300, 7}) {
      const size_t copy = rig.AddCopy(one);
      rig.Step({{copy, 880}}, workers);
      rig.Run(copy, chunk, workers);
      EXPECT_EQ(DifferingRows(rig, one, copy), 0) << workers << " workers, chunk " << chunk;
    }
  }
}

TEST_P(AttentionTest, GivesTheSameBitsAloneAndInAMixedBatch) {
  Rig rig(GetParam(), kSmolShape, 400, 5);
  std::vector<size_t> batch;
  std::vector<size_t> alone;
  for (int32_t tokens : {5, 33, 290, 300, 40, 520}) {
    batch.push_back(rig.AddSequence(tokens));
    alone.push_back(rig.AddCopy(batch.back()));
    rig.Run(alone.back(), 1000);
  }
  Random random(55);
  for (;;) {  // some sequences of the batch, random rows each, until all are done
    std::vector<StepRows> step;
    for (size_t s : batch) {
      const int32_t left = rig[s].tokens - rig[s].done;
      if (left > 0 && random.Chance(0.8)) {
        const int32_t most = random.Chance(0.5) ? 3 : 100;
        step.push_back({s, std::min<int32_t>(left, 1 + static_cast<int32_t>(random.Below(most)))});
      }
    }
    if (!step.empty()) rig.Step(step, 2);
    if (std::all_of(batch.begin(), batch.end(),
                    [&](size_t s) { return rig[s].done == rig[s].tokens; }))
      break;
  }
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_EQ(DifferingRows(rig, batch[i], alone[i]), 0) << i;
}

TEST_P(AttentionTest, SharedPrefixesAreReadTogetherAndChangeNoBit) {
  Rig rig(GetParam(), kSmolShape, 200, 6);
  const size_t parent = rig.AddSequence(600);
  rig.Run(parent, 600);
  std::vector<StepRows> step;
  for (int i = 0; i < 7; ++i) {
    const size_t fork = rig.AddFork(parent, 544, 620);
    rig.Step({{fork, 10 + i}});
    step.push_back({fork, i % 3 + 1});
  }
  std::vector<StepRows> copies;
  for (const StepRows& r : step) {
    const size_t copy = rig.AddCopy(r.sequence);
    rig.Step({{copy, rig[r.sequence].done}});
    copies.push_back({copy, r.rows});
  }
  rig.Step(step, 2);
  int shared_items = 0;
  const AttentionWork work = const_cast<AttentionPlan&>(rig.plan()).work();
  for (int32_t i = 0; i < rig.plan().items(); ++i) shared_items += work.items[i].segment_count > 1;
  EXPECT_EQ(shared_items, 2 * 3) << "two whole chunks of 256 for each of three kv heads";
  rig.Step(copies, 1, /*share_prefixes=*/false);
  for (size_t i = 0; i < step.size(); ++i) {
    EXPECT_EQ(DifferingRows(rig, step[i].sequence, copies[i].sequence, 544), 0) << i;
    EXPECT_LE(ErrorAt(rig, step[i].sequence, rig[step[i].sequence].done - 1), Bound(GetParam()));
  }
}

TEST_P(AttentionTest, AWindowHidesWhatLiesBeforeIt) {
  for (const int32_t window : {1, 5, 32, 33, 100, 256, 300, 600}) {
    Rig rig(GetParam(), kSmolShape, 30, 12);
    rig.set_window(window);
    const size_t s = rig.AddSequence(600);
    rig.Run(s, 600);
    for (int32_t position : {0, 1, 31, 32, 33, 99, 100, 131, 255, 256, 300, 511, 512, 540, 599}) {
      // With few keys in the window, the rounding error of one is not averaged away.
      EXPECT_LE(ErrorAt(rig, s, position), 1.5 * Bound(GetParam()))
          << "window " << window << " position " << position;
    }
  }
}

TEST_P(AttentionTest, AWindowGivesTheSameBitsInEveryStep) {
  for (const int32_t window : {7, 70, 300}) {
    Rig rig(GetParam(), kSmolShape, 300, 13);
    rig.set_window(window);
    const size_t whole = rig.AddSequence(820);
    rig.Run(whole, 820);
    rig.set_plan_of_window(true);
    for (int32_t chunk : {1, 8, 33, 512}) {
      const size_t copy = rig.AddCopy(whole);
      if (chunk == 1) rig.Step({{copy, 780}}, 3);
      rig.Run(copy, chunk, chunk == 33 ? 1 : 3);
      EXPECT_EQ(DifferingRows(rig, whole, copy), 0) << "window " << window << " chunk " << chunk;
    }
    // Shared prefixes, the forks at different places behind them.
    std::vector<StepRows> step;
    std::vector<StepRows> copies;
    for (int i = 0; i < 4; ++i) {
      const size_t fork = rig.AddFork(whole, 544, 700);
      rig.Step({{fork, 1 + 40 * i}}, 2);
      const size_t copy = rig.AddCopy(fork);
      rig.Step({{copy, rig[fork].done}});
      step.push_back({fork, i % 3 + 1});
      copies.push_back({copy, i % 3 + 1});
    }
    rig.Step(step, 2);
    rig.set_plan_of_window(false);
    rig.Step(copies, 1, /*share_prefixes=*/false);
    for (size_t i = 0; i < step.size(); ++i) {
      EXPECT_EQ(DifferingRows(rig, step[i].sequence, copies[i].sequence, 544), 0)
          << "window " << window << " fork " << i;
    }
  }
}

// Chunked attention: the windows lie one behind another.
TEST_P(AttentionTest, AnAlignedWindowBeginsAtItsMultiples) {
  for (const int32_t window : {1, 33, 100, 256, 300}) {
    Rig rig(GetParam(), kSmolShape, 40, 18);
    rig.set_window(window, /*aligned=*/true);
    const size_t s = rig.AddSequence(600);
    rig.Run(s, 600);
    for (int32_t position : {0, 15, 16, 32, 33, 65, 66, 99, 100, 255, 256, 299, 300, 511, 512, 599})
      EXPECT_LE(ErrorAt(rig, s, position), 1.5 * Bound(GetParam()))
          << "window " << window << " position " << position;
    if (window != 33 && window != 300) continue;
    rig.set_plan_of_window(true);
    const size_t copy = rig.AddCopy(s);
    rig.Run(copy, 13, 2);
    EXPECT_EQ(DifferingRows(rig, s, copy), 0) << window;
  }
}

TEST_P(AttentionTest, AnAlignedWindowGivesTheSameBitsOverSharedPrefixes) {
  for (const int32_t window : {100, 270}) {
    Rig rig(GetParam(), kSmolShape, 300, 19);
    rig.set_window(window, /*aligned=*/true);
    const size_t whole = rig.AddSequence(544);
    rig.Run(whole, 544);
    rig.set_plan_of_window(true);
    std::vector<StepRows> step;
    std::vector<StepRows> copies;
    for (int i = 0; i < 4; ++i) {
      const size_t fork = rig.AddFork(whole, 544, 700);
      rig.Step({{fork, 1 + 40 * i}}, 2);
      const size_t copy = rig.AddCopy(fork);
      rig.Step({{copy, rig[fork].done}});
      step.push_back({fork, 2 * i + 1});
      copies.push_back({copy, 2 * i + 1});
    }
    rig.Step(step, 2);
    rig.set_plan_of_window(false);
    rig.Step(copies, 1, /*share_prefixes=*/false);
    for (size_t i = 0; i < step.size(); ++i) {
      EXPECT_EQ(DifferingRows(rig, step[i].sequence, copies[i].sequence, 544), 0)
          << "window " << window << " fork " << i;
    }
  }
}

TEST_P(AttentionTest, RowsThatSeeBothWaysAgreeWithFloat64) {
  for (const int32_t window : {0, 1, 33, 280}) {
    for (const int32_t tokens : {1, 33, 300}) {
      Rig rig(GetParam(), kSmolShape, 30, 14);
      rig.set_window(window);
      rig.set_both_ways();
      const size_t s = rig.AddSequence(tokens);
      rig.Run(s, tokens, 2);
      for (int32_t position : {0, 1, 31, 32, 255, 256, 299}) {
        if (position >= tokens) break;
        EXPECT_LE(ErrorAt(rig, s, position), 1.5 * Bound(GetParam()))
            << "window " << window << " position " << position << " of " << tokens;
      }
    }
  }
}

TEST_P(AttentionTest, RowsThatSeeBothWaysHaveTheSameBitsInAnyBatch) {
  for (const int32_t window : {0, 40}) {
    Rig rig(GetParam(), kSmolShape, 200, 15);
    rig.set_window(window);
    rig.set_both_ways();
    std::vector<StepRows> step;
    std::vector<size_t> alone;
    for (int32_t tokens : {5, 300, 1, 530}) {
      step.push_back({rig.AddSequence(tokens), tokens});
      alone.push_back(rig.AddCopy(step.back().sequence));
      rig.Run(alone.back(), tokens);
    }
    rig.Step(step, 3);
    for (size_t i = 0; i < step.size(); ++i)
      EXPECT_EQ(DifferingRows(rig, step[i].sequence, alone[i]), 0) << window << " " << i;
  }
}

TEST_P(AttentionTest, ASoftCapBoundsTheScores) {
  for (const float cap : {0.5f, 5.0f, 50.0f}) {
    AttentionShape shape = Shape(4, 2, 32);
    shape.softcap = cap;
    Rig rig(GetParam(), shape, 60, 14);
    rig.set_window(cap == 5.0f ? 90 : 0);
    const size_t s = rig.AddSequence(300);
    for (size_t i = 0; i < rig[s].qkv.size(); i += 7) rig[s].qkv[i] *= 4;
    rig.Run(s, 300);
    const size_t copy = rig.AddCopy(s);
    rig.Run(copy, 11, 2);
    EXPECT_EQ(DifferingRows(rig, s, copy), 0) << cap;
    for (int32_t position : {0, 1, 40, 256, 299})
      EXPECT_LE(ErrorAt(rig, s, position), 2 * Bound(GetParam())) << cap << " at " << position;
  }
}

// Far below all scores, among them, and far above.
TEST_P(AttentionTest, ASinkTakesItsShareOfEachHead) {
  for (const int32_t window : {0, 70}) {
    const AttentionShape shape = Shape(6, 2, 32);
    Rig rig(GetParam(), shape, 60, 15);
    rig.set_window(window);
    rig.set_sinks({-80.0f, -1.0f, 0.0f, 2.5f, 6.0f, 12.0f});
    const size_t s = rig.AddSequence(300);
    rig.Run(s, 300);
    for (const int32_t position : {0, 1, 31, 32, 70, 255, 256, 299}) {
      EXPECT_LE(ErrorAt(rig, s, position), 2 * Bound(GetParam())) << window << " at " << position;
    }
    const int32_t chunk = window == 0 ? 33 : 1;
    const size_t copy = rig.AddCopy(s);
    if (chunk == 1) rig.Step({{copy, 290}}, 2);
    rig.Run(copy, chunk, 2);
    EXPECT_EQ(DifferingRows(rig, s, copy), 0) << window << " chunk " << chunk;
    // A sink above all scores leaves little of its head.
    const float* row = rig[s].out.data() + 299 * OutWidth(rig);
    float first = 0, last = 0;
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      first = std::max(first, std::fabs(row[d]));
      last = std::max(last, std::fabs(row[5 * shape.head_dim + d]));
    }
    EXPECT_LT(last, 0.1f * first);
  }
}

TEST_P(AttentionTest, WhatAnEarlierOwnerLeftInABlockIsNeverSeen) {
  Rig rig(GetParam(), kSmolShape, 60, 7);
  const size_t clean = rig.AddSequence(300);
  rig.Run(clean, 100);
  rig.PoisonFreeBlocks();
  for (int32_t chunk : {1, 45, 300}) {
    const size_t copy = rig.AddCopy(clean);
    rig.Run(copy, chunk);
    EXPECT_EQ(DifferingRows(rig, clean, copy), 0) << "chunk " << chunk;
  }
}

TEST_P(AttentionTest, RandomShapesAgreeWithFloat64AndWithThemselves) {
  Random random(8);
  for (int round = 0; round < 18; ++round) {
    const bool multi_query = random.Chance(0.1);
    const int32_t kv_heads = multi_query ? 1 : static_cast<int32_t>(random.Between(1, 3));
    const int32_t group =
        static_cast<int32_t>(multi_query ? random.Between(10, 71) : random.Between(1, 5));
    const int32_t head_dim = round < 16 ? 16 * (round + 1) : (random.Chance(0.5) ? 64 : 128);
    AttentionShape shape = Shape(kv_heads * group, kv_heads, head_dim,
                                 random.Chance(0.5) ? RopeMode::kAdjacent : RopeMode::kHalf);
    if (random.Chance(0.3))
      shape.rope_dims = 2 * static_cast<int32_t>(random.Between(1, head_dim / 2));
    const int32_t tokens = static_cast<int32_t>(random.Between(1, multi_query ? 60 : 160));
    SCOPED_TRACE(::testing::Message() << "heads " << shape.heads << "/" << kv_heads << " dim "
                                      << head_dim << " rope " << shape.rope_dims << " mode "
                                      << static_cast<int>(shape.rope_mode) << " tokens " << tokens);
    Rig rig(GetParam(), shape, 40, 100 + static_cast<uint64_t>(round));
    const size_t a = rig.AddSequence(tokens);
    rig.Run(a, tokens);
    EXPECT_LE(ErrorAt(rig, a, tokens - 1), 2 * Bound(GetParam()));
    const size_t b = rig.AddCopy(a);
    rig.Run(b, static_cast<int32_t>(random.Between(1, 40)), 2);
    EXPECT_EQ(DifferingRows(rig, a, b), 0);
  }
}

TEST_P(AttentionTest, SharpAndFlatScoresAndZeroRowsStayFinite) {
  for (const float factor : {0.0f, 1e-3f, 30.0f}) {
    Rig rig(GetParam(), kSmolShape, 20, 9);
    const size_t s = rig.AddSequence(280);
    for (float& x : rig[s].qkv) x *= factor;
    rig.Run(s, 280);
    const size_t at = 279 * OutWidth(rig);
    for (size_t i = 0; i < OutWidth(rig); ++i)
      ASSERT_TRUE(std::isfinite(rig[s].out[at + i])) << factor;
    // A sharp softmax doubles what rounding of the scores does.
    if (factor == 0) continue;
    const double sharp = GetParam().format == KvFormat::kI8 ? 0.3 : 0.05;
    EXPECT_LE(ErrorAt(rig, s, 279), factor > 1 ? sharp : Bound(GetParam())) << factor;
  }
}

TEST_P(AttentionTest, ASequenceOfNotANumbersSpoilsNobodyElse) {
  Rig rig(GetParam(), kSmolShape, 60, 10);
  const size_t good = rig.AddSequence(100);
  const size_t alone = rig.AddCopy(good);
  rig.Run(alone, 100);
  const size_t bad = rig.AddSequence(100);
  for (float& x : rig[bad].qkv) x = std::nanf("");
  rig.Step({{bad, 50}, {good, 50}}, 2);
  rig.Step({{good, 50}, {bad, 50}}, 2);
  EXPECT_EQ(DifferingRows(rig, good, alone), 0);
}

bool SameRow(Rig& rig, size_t a, size_t b, int32_t position) {
  const size_t at = static_cast<size_t>(position) * OutWidth(rig);
  return std::memcmp(&rig[a].out[at], &rig[b].out[at], OutWidth(rig) * sizeof(float)) == 0;
}

// A hidden value once reached the sums of rows in its block times 0, which is NaN if the value is
// not finite: a later token of a prompt changed the rows of earlier ones.
TEST_P(AttentionTest, AHiddenValueThatIsNotFiniteReachesNoRow) {
  constexpr int32_t kTokens = 150;
  const AttentionWindow windows[] = {{}, {5}, {70}, {7, true}, {50, true}};
  for (const AttentionShape& shape : {Shape(3, 3, 32), Shape(6, 2, 48)}) {
    for (const AttentionWindow window : windows) {
      for (const bool both_ways : {false, true}) {
        if (both_ways && (window.tokens == 0 || window.aligned)) continue;
        Rig rig(GetParam(), shape, 80, 20);
        rig.set_window(window.tokens, window.aligned);
        if (both_ways) rig.set_both_ways();
        if (window.tokens == 70) rig.set_sinks(std::vector<float>(6, 0.5f));
        const size_t clean = rig.AddSequence(kTokens);
        rig.Run(clean, kTokens);
        float value = std::nanf("");
        for (const int32_t hidden : {0, 31, 40, 66, 101}) {
          const size_t poisoned = rig.AddCopy(clean);
          rig.Spoil(poisoned, hidden, value);
          rig.Run(poisoned, hidden == 40 && !both_ways ? 13 : kTokens, 2);
          int unlike = 0;
          for (int32_t t = 0; t < kTokens; ++t) {
            const bool reaches = window.tokens == 0 || std::abs(t - hidden) < window.tokens;
            const bool behind = window.aligned && t / window.tokens != hidden / window.tokens;
            const bool sees = (t >= hidden || both_ways) && reaches && !behind;
            unlike += SameRow(rig, poisoned, clean, t) ? 0 : 1;
            if (sees) continue;
            EXPECT_TRUE(SameRow(rig, poisoned, clean, t))
                << "token " << hidden << " reached row " << t << ", window " << window.tokens;
          }
          EXPECT_GT(unlike, 0) << "token " << hidden << " is not what it was";
          value = std::isnan(value) ? INFINITY : std::nanf("");
        }
      }
    }
  }
}

// The same for rows that share an item: some of them see the token, which lies in their common
// beginning, and the windows of the others begin behind it.
TEST_P(AttentionTest, AHiddenValueThatIsNotFiniteReachesNoRowOfASharedItem) {
  Rig rig(GetParam(), kSmolShape, 300, 21);
  rig.set_window(300);
  constexpr int32_t kCommon = 544, kHidden = 280;
  size_t parents[2];
  parents[0] = rig.AddSequence(kCommon);
  parents[1] = rig.AddCopy(parents[0]);
  rig.Spoil(parents[1], kHidden, std::nanf(""));
  rig.Run(parents[0], kCommon);
  rig.Run(parents[1], kCommon);
  std::vector<StepRows> steps[2];
  for (const int32_t more : {1, 20, 40, 60}) {  // their windows begin at 246, 265, 285 and 305
    for (int p : {0, 1}) {
      const size_t fork = rig.AddFork(parents[p], kCommon, 700);
      if (p == 1) {
        std::vector<float>& qkv = rig[fork].qkv;
        const size_t own = qkv.size() / 700 * kCommon;
        const std::vector<float>& like = rig[steps[0].back().sequence].qkv;
        std::copy(like.begin() + static_cast<std::ptrdiff_t>(own), like.end(),
                  qkv.begin() + static_cast<std::ptrdiff_t>(own));
      }
      rig.Step({{fork, more}});
      steps[p].push_back({fork, 1});
    }
  }
  for (const auto& step : steps) rig.Step(step, 2);
  for (size_t i = 0; i < 4; ++i) {
    const size_t a = steps[0][i].sequence, b = steps[1][i].sequence;
    EXPECT_EQ(SameRow(rig, a, b, rig[a].done - 1), i >= 2) << i;
  }
}

TEST(AttentionClosenessTest, VectorTablesAgreeWithTheScalarOracle) {
  std::vector<Rig> rigs;
  const std::vector<Variant> variants = Variants();
  for (const Variant& variant : variants) {
    rigs.emplace_back(variant, kSmolShape, 20, 11);
    rigs.back().Run(rigs.back().AddSequence(320), 320);
  }
  const std::vector<float>& oracle = rigs[0][0].out;  // scalar, float
  ASSERT_EQ(variants[0].Name(), "scalar_float");
  const std::vector<double> reference(oracle.begin(), oracle.end());
  for (size_t i = 1; i < rigs.size(); ++i) {
    EXPECT_LE(RelativeError(reference, rigs[i][0].out.data()), Bound(variants[i]))
        << variants[i].Name();
  }
}

TEST(KvLayoutTest, CachesTakeAsManyBytesAsTheirNumbers) {
  EXPECT_EQ(MakeKvLayout(KvFormat::kF32, 3, 64).layer_bytes, 3u * 2 * 32 * 64 * 4);
  EXPECT_EQ(MakeKvLayout(KvFormat::kF16, 3, 64).layer_bytes, 3u * 2 * 32 * 64 * 2);
  EXPECT_EQ(MakeKvLayout(KvFormat::kI16, 3, 64).layer_bytes, 3u * (2 * 32 * 64 * 2 + 2 * 32 * 4));
  EXPECT_EQ(MakeKvLayout(KvFormat::kI8, 3, 64).layer_bytes, 3u * (2 * 32 * 64 + 2 * 32 * 4));
  // U58: of the usual widths of a head, at most 0.55 of the 16-bit cache.
  for (const int32_t head_dim : {64, 80, 96, 128, 256}) {
    EXPECT_LE(static_cast<double>(MakeKvLayout(KvFormat::kI8, 1, head_dim).layer_bytes),
              0.55 * static_cast<double>(MakeKvLayout(KvFormat::kI16, 1, head_dim).layer_bytes));
  }
  for (int32_t head_dim = 16; head_dim <= kMaxHeadDim; head_dim += 16) {
    for (KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kI16, KvFormat::kI8}) {
      EXPECT_EQ(MakeKvLayout(format, 1, head_dim).head_bytes % 64, 0u);
      EXPECT_EQ(MakeKvLayout(format, 1, head_dim).v_offset % 64, 0u);
    }
  }
}

TEST(AttentionShapeTest, FaultsAreNamed) {
  EXPECT_EQ(AttentionShapeFault(kSmolShape), nullptr);
  EXPECT_NE(AttentionShapeFault(Shape(8, 3, 64)), nullptr);
  EXPECT_NE(AttentionShapeFault(Shape(0, 0, 64)), nullptr);
  EXPECT_NE(AttentionShapeFault(Shape(8, 8, 24)), nullptr);
  EXPECT_EQ(AttentionShapeFault(Shape(8, 8, 512)), nullptr);
  EXPECT_NE(AttentionShapeFault(Shape(8, 8, 528)), nullptr);
  EXPECT_NE(AttentionShapeFault(Shape(129, 1, 64)), nullptr);
  AttentionShape odd = kSmolShape;
  odd.rope_dims = 63;
  EXPECT_NE(AttentionShapeFault(odd), nullptr);
  odd.rope_mode = RopeMode::kNone;
  EXPECT_EQ(AttentionShapeFault(odd), nullptr);
}

}  // namespace
}  // namespace tutti::kernels::testing
