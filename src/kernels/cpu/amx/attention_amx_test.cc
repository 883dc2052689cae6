// Attention in a tile unit gives the bits of the vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/testing/attention_test_rig.h"

namespace tutti::kernels {

const AttentionKernels& AmxEmulatedAttentionKernelsForTest();

namespace testing {
namespace {

bool HasVectors() {
  const std::vector<Isa> isas = DetectIsas();
  return std::find(isas.begin(), isas.end(), Isa::kAvx512Vnni) != isas.end();
}

// The kernels that this machine runs in a unit, the emulated one first.
std::vector<const AttentionKernels*> UnitKernels() {
  std::vector<const AttentionKernels*> out = {&AmxEmulatedAttentionKernelsForTest()};
  for (const Isa isa : DetectIsas()) {
    if (isa == Isa::kAmx) out.push_back(&KernelsFor(isa).attention);
  }
  return out;
}

struct Case {
  AttentionShape shape;
  int32_t tokens;
  int32_t chunk;   // rows of a step
  int32_t window;  // 0: none
};

std::vector<float> Output(const AttentionKernels& kernels, const Case& c) {
  Rig rig({Isa::kAvx512Vnni, KvFormat::kI8, &kernels}, c.shape, c.tokens / 32 + 2, 7);
  if (c.window > 0) rig.set_window(c.window);
  const size_t s = rig.AddSequence(c.tokens);
  rig.Run(s, c.chunk);
  return rig[s].out;
}

TEST(AttentionUnit, GivesTheBitsOfTheVectors) {
  if (!HasVectors()) GTEST_SKIP() << "needs AVX-512 VNNI";
  const auto shape = [](int32_t heads, int32_t kv_heads, int32_t head_dim, float softcap = 0) {
    return AttentionShape{heads, kv_heads, head_dim, 0.11f, RopeMode::kHalf, head_dim, softcap};
  };
  const Case cases[] = {
      {shape(9, 3, 64), 300, 300, 0},      {shape(9, 3, 64), 530, 67, 0},
      {shape(3, 1, 64), 290, 111, 40},     {shape(2, 2, 128), 270, 45, 0},
      {shape(4, 1, 128, 5.0f), 80, 70, 0}, {shape(5, 1, 16), 70, 64, 0},
      {shape(6, 1, 80), 100, 50, 33},      {shape(2, 1, 112, 3.0f), 90, 90, 7},
      {shape(4, 2, 256), 70, 40, 0},       {shape(2, 1, 512), 40, 33, 0},
  };
  for (const Case& c : cases) {
    const std::vector<float> want = Output(KernelsFor(Isa::kAvx512Vnni).attention, c);
    for (const AttentionKernels* kernels : UnitKernels()) {
      const std::vector<float> got = Output(*kernels, c);
      ASSERT_EQ(got.size(), want.size());
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
          << kernels->name << " heads " << c.shape.heads << " head_dim " << c.shape.head_dim
          << " chunk " << c.chunk << " window " << c.window;
    }
  }
}

// Items whose sequences share blocks: their windows begin at different keys, out of order.
TEST(AttentionUnit, GivesTheBitsOfTheVectorsForSharedPrefixes) {
  if (!HasVectors()) GTEST_SKIP() << "needs AVX-512 VNNI";
  const AttentionShape shape = {9, 3, 64, 0.125f, RopeMode::kNone, 0};
  for (const int32_t window : {0, 290}) {
    const auto run = [&](const AttentionKernels& kernels) {
      Rig rig({Isa::kAvx512Vnni, KvFormat::kI8, &kernels}, shape, 300, 8);
      if (window > 0) rig.set_window(window);
      const size_t parent = rig.AddSequence(600);
      rig.Run(parent, 600);
      std::vector<StepRows> step;
      for (const int32_t ahead : {40, 3, 55, 21, 9, 30, 2}) {
        const size_t fork = rig.AddFork(parent, 544, 620);
        rig.Step({{fork, ahead}});
        step.push_back({fork, ahead % 3 + 3});
      }
      rig.Step(step, 2);
      std::vector<float> out;
      for (const StepRows& rows : step)
        out.insert(out.end(), rig[rows.sequence].out.begin(), rig[rows.sequence].out.end());
      return out;
    };
    const std::vector<float> want = run(KernelsFor(Isa::kAvx512Vnni).attention);
    for (const AttentionKernels* kernels : UnitKernels()) {
      const std::vector<float> got = run(*kernels);
      ASSERT_EQ(got.size(), want.size());
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
          << kernels->name << " window " << window;
    }
  }
}

// A key that a row does not see must not reach its sums, not even times 0: it may be a NaN.
TEST(AttentionUnit, AHiddenValueThatIsNotFiniteReachesNoRow) {
  if (!HasVectors()) GTEST_SKIP() << "needs AVX-512 VNNI";
  const AttentionShape shape = {6, 2, 64, 0.11f, RopeMode::kHalf, 64};
  constexpr int32_t kTokens = 150;
  for (const AttentionKernels* kernels : UnitKernels()) {
    for (const int32_t window : {0, 7, 70}) {
      Rig rig({Isa::kAvx512Vnni, KvFormat::kI8, kernels}, shape, 60, 9);
      if (window > 0) rig.set_window(window);
      const size_t clean = rig.AddSequence(kTokens);
      rig.Run(clean, kTokens);
      for (const int32_t hidden : {0, 31, 66, 101}) {
        for (const float value : {std::nanf(""), INFINITY}) {
          const size_t spoilt = rig.AddCopy(clean);
          rig.Spoil(spoilt, hidden, value);
          rig.Run(spoilt, kTokens);
          const size_t width = rig[clean].out.size() / kTokens;
          bool reached = false;
          for (int32_t t = 0; t < kTokens; ++t) {
            const size_t at = static_cast<size_t>(t) * width;
            const bool same =
                std::memcmp(&rig[spoilt].out[at], &rig[clean].out[at], width * sizeof(float)) == 0;
            const bool sees = t >= hidden && (window == 0 || t - hidden < window);
            reached = reached || !same;
            EXPECT_TRUE(same || sees) << kernels->name << " row " << t << " window " << window;
          }
          EXPECT_TRUE(reached);
        }
      }
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace tutti::kernels
