#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "kernels/attention_plan.h"

namespace tutti::kernels {
namespace {

constexpr AttentionShape kShape{.heads = 9,
                                .kv_heads = 3,
                                .head_dim = 64,
                                .scale = 0.125f,
                                .rope_mode = RopeMode::kNone,
                                .rope_dims = 0};
constexpr size_t kLayers = 2;  // the stride of a block holds this many layers

// Three decoding sequences of 1, 40 and 700 keys, and a prompt of 80 rows.
struct Step {
  Step() {
    for (int32_t id = 0; id < 40; ++id) blocks.push_back((id * 7) % 40);
    const std::vector<AttentionSequence> sequences = {
        {.blocks = blocks.data(), .start = 0, .rows = 1, .first_row = 0},
        {.blocks = blocks.data() + 1, .start = 39, .rows = 1, .first_row = 1},
        {.blocks = blocks.data() + 3, .start = 699, .rows = 1, .first_row = 2},
        {.blocks = blocks.data() + 30, .start = 0, .rows = 80, .first_row = 3}};
    plan.Build(kShape, sequences, 2);
  }
  std::vector<int32_t> blocks;
  AttentionPlan plan;
};

KvLayerView Layer(const KvLayout& layout) {
  return {nullptr, kLayers * layout.layer_bytes, layout.head_bytes};
}

std::vector<Prefetch::Run> Reads(const Step& step, const KvLayout& layout, int worker,
                                 int32_t max_lines = 1 << 20) {
  std::vector<Prefetch::Run> runs(1000);
  AttentionPlan plan = step.plan;
  const int32_t count = ListAttentionReads(plan.work(), plan.items(), layout, Layer(layout), worker,
                                           2, max_lines, runs);
  runs.resize(static_cast<size_t>(count));
  return runs;
}

TEST(AttentionReadsTest, TheWorkersTogetherReadEveryBlockAndHeadOfTheStep) {
  const Step step;
  const KvLayout layout = MakeKvLayout(KvFormat::kI16, kShape.kv_heads, kShape.head_dim);
  const size_t stride = kLayers * layout.layer_bytes;
  std::set<size_t> wanted;
  const auto want = [&](int first, int count) {
    for (int b = first; b < first + count; ++b) {
      for (size_t head = 0; head < 3; ++head) {
        wanted.insert(static_cast<size_t>(step.blocks[static_cast<size_t>(b)]) * stride +
                      head * layout.head_bytes);
      }
    }
  };
  want(0, 1);   // 1 key
  want(1, 2);   // 40
  want(3, 22);  // 700
  want(30, 3);  // 80
  std::set<size_t> read;
  for (int worker = 0; worker < 2; ++worker) {
    for (const Prefetch::Run& run : Reads(step, layout, worker)) {
      read.insert(run.offset);
      EXPECT_GE(run.lines, 1);
      EXPECT_LE(static_cast<size_t>(run.lines) * 64, layout.head_bytes);
    }
  }
  EXPECT_EQ(read, wanted);
}

TEST(AttentionReadsTest, ABlockThatIsNotFullIsReadUpToItsLastValue) {
  const Step step;
  const std::pair<KvFormat, size_t> value_bytes[] = {
      {KvFormat::kI16, 2}, {KvFormat::kF16, 2}, {KvFormat::kF32, 4}, {KvFormat::kI8, 1}};
  for (const auto& [format, value_size] : value_bytes) {
    const size_t bytes = value_size;  // a lambda of clang 14 captures no structured binding
    const KvLayout layout = MakeKvLayout(format, kShape.kv_heads, kShape.head_dim);
    std::set<int32_t> lines;
    for (int worker = 0; worker < 2; ++worker) {
      for (const Prefetch::Run& run : Reads(step, layout, worker)) lines.insert(run.lines);
    }
    const auto up_to = [&](size_t values) {
      return static_cast<int32_t>((layout.v_offset + values * 64 * bytes + 63) / 64);
    };
    // 1 key (two values to a lane), 40 = 32 + 8, 700 = 21 * 32 + 28, 80 = 2 * 32 + 16 and its
    // tiles.
    for (const size_t values : {2, 8, 28, 16}) EXPECT_TRUE(lines.contains(up_to(values))) << values;
    EXPECT_TRUE(lines.contains(static_cast<int32_t>(layout.head_bytes / 64)));
  }
}

TEST(AttentionReadsTest, TheListEndsWhereLinesOrPlacesEnd) {
  const Step step;
  const KvLayout layout = MakeKvLayout(KvFormat::kI16, kShape.kv_heads, kShape.head_dim);
  const std::vector<Prefetch::Run> all = Reads(step, layout, 0);
  ASSERT_GT(all.size(), 10u);
  int32_t lines = 0;
  for (size_t i = 0; i < 5; ++i) lines += all[i].lines;
  EXPECT_EQ(Reads(step, layout, 0, lines).size(), 5u);
  EXPECT_EQ(Reads(step, layout, 0, lines - 1).size(), 4u);
  EXPECT_TRUE(Reads(step, layout, 0, 0).empty());

  AttentionPlan plan = step.plan;
  std::array<Prefetch::Run, 3> few{};
  EXPECT_EQ(
      ListAttentionReads(plan.work(), plan.items(), layout, Layer(layout), 0, 2, 1 << 20, few), 3);
}

}  // namespace
}  // namespace tutti::kernels
