// A steady decode step allocates nothing, nor does a batch of texts. This file replaces operator
// new for the whole test program.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "model/testing/generated_encoder.h"
#include "model/testing/lora_files.h"
#include "runner/cpu_encoder_runner.h"
#include "runner/cpu_model_runner.h"
#include "runner/testing/direct_driver.h"

namespace {

std::atomic<int64_t> allocations{0};

#ifndef TUTTI_SANITIZED  // sanitizers bring their own operators
void* Counted(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
#endif

}  // namespace

#ifndef TUTTI_SANITIZED
void* operator new(size_t size) { return Counted(size); }
void* operator new[](size_t size) { return Counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace tutti::runner {
namespace {

// A compute thread's sampler grows when the thread first samples a row. Which thread takes a row is
// open, so sequences that sample run on one thread, and greedy ones on two.
class SteadyDecodeTest : public ::testing::TestWithParam<int> {};  // workers
INSTANTIATE_TEST_SUITE_P(Workers, SteadyDecodeTest, ::testing::Values(1, 2));

TEST_P(SteadyDecodeTest, FiveThousandStepsAllocateNothing) {
  gguf::testing::CheckpointSpec spec;
  spec.layers = 1;
  spec.width = 64;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_width = 32;
  spec.feed_forward = 64;
  spec.context = 4096;
  spec.type = tensor::DType::kQ4_0;
  const auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  ASSERT_TRUE(file.ok());
  const auto weights = model::Weights::Load(**file, {});
  ASSERT_TRUE(weights.ok()) << weights.status();
  CpuRunnerOptions options;
  options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
  options.pool = std::make_shared<ComputePool>(ComputePoolOptions{.workers = GetParam()});
  options.kv_bytes = size_t{64} << 20;
  options.context = 4096;
  options.adapters = true;
  // The second sequence has an adapter.
  const model::testing::LoraSpec lora;
  const auto adapter_file =
      model::LoraFile::FromGguf(model::testing::OpenLoraGguf(model::testing::LoraGguf(
                                    model::testing::LoraMatrices(spec, lora), lora)),
                                *model::FamilyOfArchitecture("llama"));
  ASSERT_TRUE(adapter_file.ok()) << adapter_file.status();
  const CpuAdapter adapter(*model::LoraAdapter::Load(*adapter_file, (*weights)->config()));
  const auto runner = *CpuModelRunner::Create(*weights, options);

  // Three sequences that decode, over tables of blocks as the engine would keep them.
#ifndef TUTTI_SANITIZED
  constexpr int kSteps = 5000;
#else
  constexpr int kSteps = 500;  // for the checks of memory and threads alone
#endif
  constexpr int kSequences = 3;
  const api::SamplingParams greedy = GreedyParams();
  api::SamplingParams sampled;
  sampled.top_k = 20;
  std::vector<sampling::RowState> samplers(kSequences);
  std::vector<std::vector<kv::BlockId>> blocks(kSequences);
  // Every fourth step has draft tokens too.
  constexpr size_t kDrafts = 3;
  const std::vector<TokenId> history(kDrafts, 5);
  std::vector<std::array<TokenId, 1 + kDrafts>> feed(kSequences, {5, 5, 5, 5});
  engine::StepPlan plan;
  for (int i = 0; i < kSequences; ++i) {
    samplers[static_cast<size_t>(i)].params = i == 2 && GetParam() == 1 ? &sampled : &greedy;
    samplers[static_cast<size_t>(i)].output = history;
    for (int b = 0; b < 128; ++b) blocks[static_cast<size_t>(i)].push_back(i * 128 + b);
  }
  int64_t before = 0;
  for (int step = 0; step < kSteps + 100; ++step) {
    if (step == 100) before = allocations.load();  // everything has reached its size
    plan.step = static_cast<uint64_t>(step) + 1;
    plan.slices.clear();
    const size_t drafts = step % 4 == 0 ? kDrafts : 0;
    for (size_t i = 0; i < kSequences; ++i) {
      engine::SequenceSlice slice;
      slice.tokens = std::span(feed[i]).first(1 + drafts);
      slice.drafts = static_cast<int>(drafts);
      slice.start = 1000 + step % 20;  // inside one block, so that the contexts do not grow
      slice.blocks = blocks[i];
      slice.adapter = i == 1 ? &adapter : nullptr;
      slice.sample = true;
      slice.sampler = &samplers[i];
      plan.slices.push_back(slice);
    }
    plan.tokens = kSequences * static_cast<int>(1 + drafts);
    runner->Launch(plan);
    engine::StepResult result = runner->Collect();
    ASSERT_TRUE(result.status.ok());
    for (size_t i = 0; i < kSequences; ++i) feed[i][0] = result.slices[i].token;
    runner->Recycle(std::move(result));  // as the engine does
  }
  const int64_t made = allocations.load() - before;
#ifndef TUTTI_SANITIZED
  EXPECT_EQ(made, 0);
#else
  (void)made;
#endif
}

TEST(SteadyStepTest, AThousandBatchesOfTextsLikeTheFirstAllocateNothing) {
  for (const int labels : {0, 2}) {
    const auto generated = model::testing::GenerateEncoder({.labels = labels});
    CpuEncoderOptions options;
    options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
    options.pool = std::make_shared<ComputePool>(ComputePoolOptions{.workers = 2});
    const auto runner = *CpuEncoderRunner::Create(
        model::testing::LoadGenerated(generated, model::EncoderDType::kInt8), options);
    std::vector<TokenId> tokens;
    std::vector<int32_t> offsets = {0};
    for (const auto& text : model::testing::GenerateTexts(generated.config, 8)) {
      tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
      offsets.push_back(static_cast<int32_t>(tokens.size()));
    }
    const size_t floats = labels > 0 ? 2 : 64;
    std::vector<float> values(8 * floats);
    std::vector<engine::EncodeItem> items;
    for (size_t i = 0; i < 8; ++i) {
      items.push_back({offsets[i], offsets[i + 1] - offsets[i],
                       labels > 0 ? api::EncodeOutput::kScores : api::EncodeOutput::kPooled,
                       std::span(values).subspan(i * floats, floats)});
    }
    engine::EncodeBatch batch;
    batch.tokens = tokens;
    batch.items = items;
    batch.offsets = offsets;
    int64_t before = 0;
    for (int i = 0; i < 1000; ++i) {
      if (i == 1) before = allocations.load();
      runner->Launch(batch);
      ASSERT_TRUE(runner->Collect().ok());
    }
#ifndef TUTTI_SANITIZED
    EXPECT_EQ(allocations.load() - before, 0);
#else
    (void)before;
#endif
  }
}

}  // namespace
}  // namespace tutti::runner
