#include "runner/cpu_model_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "runner/testing/direct_driver.h"

namespace tutti::runner {
namespace {

using gguf::testing::CheckpointSpec;
using kernels::Isa;
using model::WeightMode;
using tensor::DType;
using testing::HasSubstr;

CheckpointSpec SmallSpec(DType type = DType::kQ4_1) {
  CheckpointSpec spec;
  spec.width = 128;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_width = 32;
  spec.feed_forward = 192;
  spec.context = 256;
  spec.type = type;
  return spec;
}

std::shared_ptr<const model::Weights> LoadWriter(const gguf::testing::Writer& writer,
                                                 const model::LoadOptions& options) {
  const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  auto weights = model::Weights::Load(**file, options);
  CHECK(weights.ok()) << weights.status();
  return *weights;
}

std::shared_ptr<const model::Weights> LoadSpec(const CheckpointSpec& spec,
                                               const model::LoadOptions& options = {}) {
  return LoadWriter(gguf::testing::MakeCheckpoint(spec), options);
}

// The generated F32 checkpoint with some weights changed.
std::shared_ptr<const model::Weights> LoadEdited(
    CheckpointSpec spec,
    const std::function<void(const std::string& name, std::vector<float>& values)>& edit) {
  const auto sound =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  CHECK(sound.ok());
  spec.tensors = false;
  gguf::testing::Writer writer = gguf::testing::MakeCheckpoint(spec);
  for (const gguf::TensorInfo& tensor : (*sound)->tensors()) {
    std::vector<float> values = *(*sound)->ReadFloats(tensor);
    edit(std::string(tensor.name), values);
    gguf::testing::WriterTensor out{
        std::string(tensor.name), {}, static_cast<uint32_t>(DType::kF32), {}, {}};
    for (int d = 0; d < tensor.shape.dims; ++d) {
      out.ne.push_back(static_cast<uint64_t>(tensor.shape.ne[static_cast<size_t>(d)]));
    }
    gguf::testing::AppendBytes(&out.data, values.data(), values.size() * sizeof(float));
    writer.Tensor(out);
  }
  return LoadWriter(writer, {});
}

CpuRunnerOptions SmallOptions(const model::Weights& weights, int workers = 2) {
  CpuRunnerOptions options;
  options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
  options.pool = std::make_shared<ComputePool>(ComputePoolOptions{.workers = workers});
  options.kv_bytes = CpuModelRunner::KvBlockBytes(weights, *options.kernels) * 64;
  options.context = weights.config().context_length;
  options.max_step_tokens = 128;
  return options;
}

std::unique_ptr<CpuModelRunner> MakeRunner(const std::shared_ptr<const model::Weights>& weights,
                                           int workers = 2) {
  auto runner = CpuModelRunner::Create(weights, SmallOptions(*weights, workers));
  CHECK(runner.ok()) << runner.status();
  return std::move(runner).value();
}

std::vector<TokenId> Prompt(int count, int salt = 0) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < count; ++i) prompt.push_back((i * 31 + 7 * salt + 5) % 300);
  return prompt;
}

std::vector<TokenId> Generate(engine::ModelRunner& runner, const std::vector<TokenId>& prompt,
                              int count, const api::SamplingParams& params = GreedyParams(),
                              uint64_t seed = 0) {
  DirectDriver driver(runner);
  const int sequence = driver.NewSequence(params, seed);
  std::vector<TokenId> feed = {*driver.Prefill(sequence, prompt, 64)};
  const int sequences[] = {sequence};
  for (int i = 1; i < count; ++i) CHECK(driver.Decode(sequences, feed).ok());
  return driver.output(sequence);
}

TEST(CpuModelRunnerTest, StatesItsLimits) {
  const auto weights = LoadSpec(SmallSpec());
  const auto runner = MakeRunner(weights);
  EXPECT_EQ(runner->limits().kv_blocks, 64);
  EXPECT_EQ(runner->limits().max_step_tokens, 128);
  EXPECT_EQ(runner->limits().context, 256);
  EXPECT_EQ(runner->limits().vocab_size, weights->config().vocab_size);
}

TEST(CpuModelRunnerTest, ABlockThatWasCopiedOutAndInHasTheSameBits) {
  const auto weights = LoadSpec(SmallSpec());
  const auto runner = MakeRunner(weights), other = MakeRunner(weights);
  const kv::PrefixShape shape = runner->memory_shape();
  EXPECT_EQ(shape.block_bytes, CpuModelRunner::KvBlockBytes(
                                   *weights, kernels::KernelsFor(kernels::DetectIsas().back())));
  EXPECT_EQ(shape.window_block_bytes, 0u);
  EXPECT_EQ(shape.state_bytes, 0u);
  const std::vector<TokenId> prompt = Prompt(kBlockTokens), next = Prompt(20, 3);
  std::vector<std::vector<TokenId>> outputs;
  for (CpuModelRunner* each : {runner.get(), other.get()}) {
    DirectDriver driver(*each);
    const int sequence = driver.NewSequence();
    // Both compute a first block, in block 0; the second runner another one, which is replaced.
    const bool replaced = each == other.get();
    ASSERT_TRUE(driver.Prefill(sequence, replaced ? Prompt(kBlockTokens, 9) : prompt, 64).ok());
    if (replaced) {
      std::vector<std::byte> block(shape.block_bytes);
      runner->CopyOut(engine::MemoryKind::kBlock, 0, block);
      other->CopyIn(engine::MemoryKind::kBlock, 0, block);
      std::vector<std::byte> again(shape.block_bytes);
      other->CopyOut(engine::MemoryKind::kBlock, 0, again);
      EXPECT_EQ(again, block);
    }
    std::vector<TokenId> feed = {*driver.Prefill(sequence, next, 64)};
    std::vector<TokenId> output = feed;
    const int sequences[] = {sequence};
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(driver.Decode(sequences, feed).ok());
      output.push_back(feed[0]);
    }
    outputs.push_back(std::move(output));
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

TEST(CpuModelRunnerTest, RefusesOptionsThatCannotWorkWithTheNumbers) {
  const auto weights = LoadSpec(SmallSpec());
  CpuRunnerOptions options = SmallOptions(*weights);
  options.kv_bytes = 100;
  auto status = CpuModelRunner::Create(weights, options).status();
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_THAT(status.message(), HasSubstr("100 bytes does not hold one block"));

  options = SmallOptions(*weights);  // more slots than positions can name; nothing is allocated
  options.kv_bytes = size_t{1} << 45;
  status = CpuModelRunner::Create(weights, options).status();
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_THAT(status.message(), HasSubstr("blocks of 32 tokens, more than 67108862"));

  options = SmallOptions(*weights);
  options.context = 257;
  status = CpuModelRunner::Create(weights, options).status();
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_THAT(status.message(), HasSubstr("257 tokens exceeds the model's limit of 256"));

  options = SmallOptions(*weights);
  options.kv_blocks = options.window_blocks = 4;
  status = CpuModelRunner::Create(weights, options).status();
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_THAT(status.message(), HasSubstr("has no layers with a window"));
}

TEST(CpuModelRunnerTest, RefusesBlocksOfWindowsWithoutOthersOrTooMany) {
  gguf::testing::Writer writer = gguf::testing::MakeCheckpoint(SmallSpec());
  writer.U32("llama.attention.sliding_window", 40);
  const auto weights = LoadWriter(writer, {});
  ASSERT_EQ(weights->config().window, 40);
  CpuRunnerOptions options = SmallOptions(*weights);
  options.window_blocks = 4;
  auto status = CpuModelRunner::Create(weights, options).status();
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_THAT(status.message(), HasSubstr("blocks for layers with a window were given, and none"));
  // More blocks than positions can name; nothing is allocated.
  options.kv_blocks = INT32_MAX / kBlockTokens;
  status = CpuModelRunner::Create(weights, options).status();
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_THAT(status.message(), HasSubstr("blocks of 32 tokens, more than 67108862"));
  options.kv_blocks = 8;
  const auto runner = CpuModelRunner::Create(weights, options);
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->limits().kv_blocks, 8);
  EXPECT_EQ((*runner)->limits().window_blocks, 4);
  EXPECT_EQ((*runner)->limits().window, 40);
}

TEST(CpuModelRunnerTest, ATokenOutsideTheVocabularyFailsItsSliceAlone) {
  const auto weights = LoadSpec(SmallSpec());
  const auto runner = MakeRunner(weights);
  const std::vector<TokenId> expected = Generate(*runner, Prompt(40), 1);
  for (const TokenId bad : {-1, weights->config().vocab_size, INT32_MAX, INT32_MIN}) {
    DirectDriver driver(*runner);
    std::vector<DirectDriver::Part> parts = {{driver.NewSequence(), Prompt(40)},
                                             {driver.NewSequence(), {3, bad, 4}}};
    const auto result = driver.Step(parts);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->slices[0].status.ok());
    EXPECT_EQ(result->slices[0].token, expected[0]);
    EXPECT_EQ(result->slices[1].status.reason(), "token_out_of_range");
    EXPECT_EQ(result->slices[1].token, kNoToken);
  }
}

// Token 9 alone excites residual dimension 0, which overflows the query projection of the last
// layer.
TEST(CpuModelRunnerTest, LogitsThatAreNotNumbersFailTheirSliceAlone) {
  CheckpointSpec spec = SmallSpec(DType::kF32);
  spec.tied = false;
  const size_t width = spec.width;
  const auto weights = LoadEdited(spec, [&](const std::string& name, std::vector<float>& values) {
    if (name == "token_embd.weight") {
      for (size_t row = 0; row < values.size() / width; ++row)
        values[row * width] = row == 9 ? 1.0f : 0.0f;
    } else if (name.find("attn_output") != std::string::npos) {
      std::fill_n(values.begin(), width, 0.0f);
    } else if (name.find("ffn_down") != std::string::npos) {
      std::fill_n(values.begin(), spec.feed_forward, 0.0f);
    } else if (name == "blk.1.attn_norm.weight") {
      values[0] = 1e30f;
    } else if (name == "blk.1.attn_v.weight") {
      for (size_t row = 0; row < values.size() / width; ++row)
        values[row * width] = row % 2 == 0 ? 1e10f : -1e10f;
    }
  });
  const auto runner = MakeRunner(weights);
  const std::vector<TokenId> expected = Generate(*runner, {4, 5, 6}, 1);
  DirectDriver driver(*runner);
  api::SamplingParams sampled;  // through the logits, not the fused argmax
  std::vector<DirectDriver::Part> parts = {{driver.NewSequence(), {4, 5, 6}},
                                           {driver.NewSequence(), {4, 9, 6}},
                                           {driver.NewSequence(sampled, 1), {9}},
                                           {driver.NewSequence(), {4, 9, 6}, false, 2}};
  const auto result = driver.Step(parts);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->slices[0].status.ok()) << result->slices[0].status;
  EXPECT_EQ(result->slices[0].token, expected[0]);
  for (const size_t broken : {1, 2, 3}) {
    EXPECT_EQ(result->slices[broken].status.code(), StatusCode::kInternal) << broken;
    EXPECT_EQ(result->slices[broken].status.reason(), "logits_not_finite") << broken;
    EXPECT_EQ(result->slices[broken].token, kNoToken);
  }
}

// Token 9 alone has values that are not finite in the first layer. Rows before it in its chunk and
// block once got them times 0, so that their keys and values in the next layer were not finite
// either: a sequence that began with a copy of these rows failed too.
TEST(CpuModelRunnerTest, ATokenWhoseValuesAreNotFiniteSpoilsNoEarlierRow) {
  CheckpointSpec spec = SmallSpec(DType::kF32);
  spec.tied = false;
  const size_t width = spec.width;
  const auto weights = LoadEdited(spec, [&](const std::string& name, std::vector<float>& values) {
    if (name == "token_embd.weight") {
      for (size_t row = 0; row < values.size() / width; ++row)
        values[row * width] = row == 9 ? 1.0f : 0.0f;
    } else if (name == "blk.0.attn_norm.weight") {
      values[0] = 1e30f;
    } else if (name == "blk.0.attn_v.weight") {
      for (size_t row = 0; row < values.size() / width; ++row) values[row * width] = 1e10f;
    }
  });
  for (const model::KvDtype kv_dtype :
       {model::KvDtype::kF32, model::KvDtype::k16Bit, model::KvDtype::kInt8}) {
    CpuRunnerOptions options = SmallOptions(*weights);
    options.kv_dtype = kv_dtype;
    const auto runner = *CpuModelRunner::Create(weights, options);
    std::vector<TokenId> prompt;
    for (TokenId token = 20; token < 40; ++token) prompt.push_back(token);
    const std::vector<TokenId> more = {4, 5, 6};
    std::vector<TokenId> clean = prompt, poisoned = prompt;
    clean.insert(clean.end(), more.begin(), more.end());
    poisoned.insert(poisoned.end(), {9, 4});
    const std::vector<TokenId> expected = Generate(*runner, clean, 1);

    DirectDriver driver(*runner);
    const DirectDriver::Part part{driver.NewSequence(), poisoned};
    const auto result = driver.Step({&part, 1});
    ASSERT_TRUE(result.ok()) << result.status();
    if (kv_dtype == model::KvDtype::kF32) {
      EXPECT_EQ(result->slices[0].status.reason(), "logits_not_finite");
    }
    const auto shared = driver.Prefill(driver.Fork(part.sequence, 20), more, 8);
    ASSERT_TRUE(shared.ok()) << shared.status();
    EXPECT_EQ(*shared, expected[0]);
  }
}

// Proposals that come true save steps; those that do not leave nothing behind. The draws and their
// log-probabilities are those of one token after the other, to the bit.
TEST(CpuModelRunnerTest, DrawsOfProposedTokensAreThoseOfSingleSteps) {
  const auto weights = LoadSpec(SmallSpec());
  const auto runner = MakeRunner(weights);
  std::vector<api::SamplingParams> all(5, GreedyParams());
  all[1].repetition_penalty = 1.3;
  all[1].frequency_penalty = 0.5;
  all[2].logprobs = 4;
  all[3] = {};
  all[3].top_p = 0.9;
  all[3].presence_penalty = 0.7;
  all[4].temperature = 0.6;
  all[4].logprobs = 2;
  for (const api::SamplingParams& params : all) {
    constexpr int kTokens = 60;
    const std::vector<TokenId> prompt = Prompt(45);
    DirectDriver plain(*runner), proposing(*runner);
    const int a = plain.NewSequence(params, 5), b = proposing.NewSequence(params, 5);
    std::vector<sampling::RowLogprobs> expected;
    TokenId feed = *plain.Prefill(a, prompt, 64);
    for (int i = 1; i < kTokens; ++i) {
      const DirectDriver::Part part{a, {feed}};
      const auto result = plain.Step({&part, 1});
      ASSERT_TRUE(result.ok());
      feed = result->slices[0].token;
      if (result->slices[0].logprobs) expected.push_back(*result->slices[0].logprobs);
    }
    const std::vector<TokenId>& want = plain.output(a);

    ASSERT_TRUE(proposing.Prefill(b, prompt, 64).ok());
    size_t logprobs = 0;
    for (int step = 0; static_cast<int>(proposing.output(b).size()) < kTokens - 8; ++step) {
      const size_t had = proposing.output(b).size();
      // Right for 0 to 7 tokens, then wrong; or all 7 right.
      DirectDriver::Part part{b, {proposing.output(b).back()}};
      const auto right = static_cast<size_t>(step % 8);
      for (size_t d = 0; d < 7; ++d)
        part.tokens.push_back(d < right ? want[had + d] : (want[had + d] + 1) % 300);
      part.drafts = 7;
      const auto result = proposing.Step({&part, 1});
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_EQ(proposing.output(b).size(), had + right + 1) << step;
      ASSERT_EQ(proposing.length(b), 45 + static_cast<int>(had + right));
      const engine::SliceResult& slice = result->slices[0];
      ASSERT_EQ(slice.more_logprobs.size(), params.logprobs >= 0 ? 7U : 0U);
      for (size_t d = 0; params.logprobs >= 0 && d <= right; ++d) {
        const sampling::RowLogprobs& got = d == 0 ? *slice.logprobs : slice.more_logprobs[d - 1];
        const sampling::RowLogprobs& one = expected[logprobs++];
        EXPECT_EQ(got.chosen.token, one.chosen.token);
        EXPECT_EQ(got.chosen.logprob, one.chosen.logprob);
        ASSERT_EQ(got.top.size(), one.top.size());
        for (size_t t = 0; t < got.top.size(); ++t) {
          EXPECT_EQ(got.top[t].token, one.top[t].token);
          EXPECT_EQ(got.top[t].logprob, one.top[t].logprob);
        }
      }
    }
    const std::vector<TokenId>& got = proposing.output(b);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin()));
  }
}

TEST(CpuModelRunnerTest, PromptLogprobsAreTheSameInOneChunkAndInMany) {
  const auto weights = LoadSpec(SmallSpec());
  const auto runner = MakeRunner(weights);
  const std::vector<TokenId> prompt = Prompt(100);
  const auto score = [&](int chunk) {
    DirectDriver driver(*runner);
    const int sequence = driver.NewSequence();
    std::vector<sampling::RowLogprobs> rows;
    for (size_t begin = 0; begin < prompt.size();) {
      const size_t count = std::min(prompt.size() - begin, static_cast<size_t>(chunk));
      DirectDriver::Part part{sequence,
                              {prompt.begin() + static_cast<std::ptrdiff_t>(begin),
                               prompt.begin() + static_cast<std::ptrdiff_t>(begin + count)},
                              false,
                              3};
      begin += count;
      part.next_token = begin < prompt.size() ? prompt[begin] : kNoToken;
      const auto result = driver.Step({&part, 1});
      EXPECT_TRUE(result.ok());
      const auto& part_rows = result->slices[0].prompt_logprobs;
      rows.insert(rows.end(), part_rows.begin(), part_rows.end());
    }
    return rows;
  };
  const auto whole = score(128);  // 99 rows: two rounds of the head
  ASSERT_EQ(whole.size(), prompt.size() - 1);
  for (const int chunk : {1, 32, 33}) {
    const auto cut = score(chunk);
    ASSERT_EQ(cut.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(whole[i].chosen.token, prompt[i + 1]);
      EXPECT_EQ(cut[i].chosen.logprob, whole[i].chosen.logprob);
      ASSERT_EQ(cut[i].top.size(), 3u);
      for (size_t k = 0; k < 3; ++k) EXPECT_EQ(cut[i].top[k].token, whole[i].top[k].token);
    }
  }
}

TEST(CpuModelRunnerTest, SeededSamplingIsTheSameInABatchAndAlone) {
  const auto weights = LoadSpec(SmallSpec());
  const auto two = MakeRunner(weights, 2), one = MakeRunner(weights, 1);
  api::SamplingParams params;
  params.top_k = 40;
  params.repetition_penalty = 1.2;
  params.logprobs = 2;
  DirectDriver driver(*two);
  std::vector<int> sequences;
  std::vector<TokenId> feed;
  for (int i = 0; i < 6; ++i) {
    sequences.push_back(driver.NewSequence(params, 100 + static_cast<uint64_t>(i)));
    feed.push_back(*driver.Prefill(sequences.back(), Prompt(20 + i, i), 16));
  }
  for (int t = 1; t < 20; ++t) ASSERT_TRUE(driver.Decode(sequences, feed).ok());
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(driver.output(sequences[static_cast<size_t>(i)]),
              Generate(*one, Prompt(20 + i, i), 20, params, 100 + static_cast<uint64_t>(i)));
  }
}

TEST(CpuModelRunnerTest, LogprobsComeFromTheRawLogits) {
  const auto weights = LoadSpec(SmallSpec());
  CpuRunnerOptions options = SmallOptions(*weights);
  std::vector<float> tapped;
  options.logits_tap = [&](uint32_t, int, std::span<const float> logits) {
    tapped.assign(logits.begin(), logits.end());
  };
  const auto runner = *CpuModelRunner::Create(weights, options);
  api::SamplingParams params;
  params.temperature = 0.3;
  params.logprobs = 4;
  params.logit_bias = {{17, 50.0f}};
  DirectDriver driver(*runner);
  DirectDriver::Part part{driver.NewSequence(params, 3), Prompt(10)};
  const auto result = driver.Step({&part, 1});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->slices[0].token,
            17);  // the bias decides the draw and does not show in the log-probability
  ASSERT_TRUE(result->slices[0].logprobs.has_value());
  double sum = 0;
  const float top = *std::max_element(tapped.begin(), tapped.end());
  for (const float logit : tapped) sum += std::exp(static_cast<double>(logit - top));
  EXPECT_NEAR(result->slices[0].logprobs->chosen.logprob,
              static_cast<double>(tapped[17] - top) - std::log(sum), 1e-5);
  EXPECT_EQ(result->slices[0].logprobs->top.size(), 4u);
}

TEST(CpuModelRunnerTest, AStepMayOnlyCopyBlocks) {
  const auto weights = LoadSpec(SmallSpec());
  const auto runner = MakeRunner(weights);
  engine::StepPlan plan;
  plan.copies = {{1, 2}, {2, 3}};
  runner->Launch(plan);
  const engine::StepResult result = runner->Collect();
  EXPECT_TRUE(result.status.ok());
  EXPECT_TRUE(result.slices.empty());
}

// Each step is begun, aborted at some layer or other, and run again.
class Interrupted final : public engine::ModelRunner {
 public:
  explicit Interrupted(engine::ModelRunner& runner) : runner_(runner) {
    runner_.SetAbortFlag(&urgent_);
  }
  engine::RunnerLimits limits() const override { return runner_.limits(); }
  void Launch(const engine::StepPlan& plan) override {
    engine::StepPlan first = plan;
    first.abortable = true;
    urgent_.store(turn_ % 2 == 0);  // every other one before it begins
    std::thread other([this] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(3 * turn_);
      while (std::chrono::steady_clock::now() < until) {
      }
      urgent_.store(true);
    });
    runner_.Launch(first);
    result_ = runner_.Collect();
    other.join();
    turn_ = (turn_ + 1) % 40;
    if (!result_.aborted) return;
    ++aborted;
    runner_.Recycle(std::move(result_));
    runner_.Launch(plan);  // urgent as before, but this one may not be aborted
    result_ = runner_.Collect();
    EXPECT_FALSE(result_.aborted);
  }
  engine::StepResult Collect() override { return std::move(result_); }
  void Recycle(engine::StepResult used) override { runner_.Recycle(std::move(used)); }

  int aborted = 0;

 private:
  engine::ModelRunner& runner_;
  std::atomic<bool> urgent_{false};
  engine::StepResult result_;
  int turn_ = 0;
};

TEST(CpuModelRunnerTest, AStepThatWasGivenUpLeavesNoTrace) {
  const auto weights = LoadSpec(SmallSpec());
  api::SamplingParams params = GreedyParams();
  params.temperature = 0.9;
  for (const int workers : {1, 3}) {
    const auto runner = MakeRunner(weights, workers);
    const std::vector<TokenId> expected = Generate(*runner, Prompt(100), 60, params, 5);
    Interrupted interrupted(*runner);
    EXPECT_EQ(Generate(interrupted, Prompt(100), 60, params, 5), expected) << workers;
    EXPECT_GE(interrupted.aborted, 1) << workers;
    runner->SetAbortFlag(nullptr);
  }
}

// One immutable set of weights under eight runners at once.
TEST(CpuModelRunnerTest, EightThreadsSharingTheWeightsGiveTheSequentialOutputs) {
  const auto weights = LoadSpec(SmallSpec());
  const std::vector<std::byte> before(weights->data(), weights->data() + weights->bytes());
  constexpr int kThreads = 8, kGenerations = 100;
  std::vector<std::vector<TokenId>> expected;
  {
    const auto runner = MakeRunner(weights, 1);
    for (int g = 0; g < kGenerations; ++g)
      expected.push_back(Generate(*runner, Prompt(3 + g % 7, g), 4));
  }
  std::vector<std::thread> threads;
  std::array<int, kThreads> different{};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto runner = MakeRunner(weights, 1);
      for (int i = 0; i < kGenerations; ++i) {
        const int g = (i * 13 + t) % kGenerations;
        if (Generate(*runner, Prompt(3 + g % 7, g), 4) != expected[static_cast<size_t>(g)]) {
          ++different[static_cast<size_t>(t)];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(different, testing::Each(0));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), weights->data()));
}

class FusionTest : public testing::TestWithParam<Isa> {};

// The same model fused and one operation at a time: float logits within 1e-5 of their scale, the
// same tokens.
TEST_P(FusionTest, FusedAndUnfusedPassesAgree) {
  for (const auto mode : {WeightMode::kF32, WeightMode::kInt8}) {
    std::map<int, std::vector<float>> logits[2];
    std::vector<TokenId> tokens[2];
    for (const bool fuse : {false, true}) {
      const auto weights = LoadSpec(SmallSpec(DType::kQ8_0), {.mode = mode, .fuse = fuse});
      CpuRunnerOptions options = SmallOptions(*weights);
      options.kernels = &kernels::KernelsFor(GetParam());
      options.logits_tap = [&](uint32_t, int position, std::span<const float> row) {
        logits[fuse][position].assign(row.begin(), row.end());
      };
      const auto runner = *CpuModelRunner::Create(weights, options);
      tokens[fuse] = Generate(*runner, Prompt(37), 16);
    }
    EXPECT_EQ(tokens[0], tokens[1]);
    ASSERT_EQ(logits[0].size(), 16u);
    double worst = 0;
    for (const auto& [position, row] : logits[0]) {
      for (size_t i = 0; i < row.size(); ++i) {
        worst = std::max(worst, static_cast<double>(std::fabs(row[i] - logits[1].at(position)[i])));
      }
    }
    // int8: a last-bit difference of a norm may move a rounding to the next integer.
    EXPECT_LT(worst, mode == WeightMode::kF32 ? 1e-5 : 0.05) << kernels::IsaName(GetParam());
  }
}

// Phases that a step of `rows` rows takes on two workers, in a model of so many layers.
uint64_t PhasesOfStep(Isa isa, uint32_t layers, bool fuse, int rows) {
  CheckpointSpec spec = SmallSpec();
  spec.layers = layers;
  const auto weights = LoadSpec(spec, {.fuse = fuse});
  CpuRunnerOptions options = SmallOptions(*weights);
  options.kernels = &kernels::KernelsFor(isa);
  options.pool = std::make_shared<ComputePool>(ComputePoolOptions{.workers = 2});
  const auto runner = *CpuModelRunner::Create(weights, options);
  const auto phase = [&] {
    uint64_t at = 0;
    options.pool->Run([&](model::Team& team) {
      if (team.worker() == 0) at = team.position().phase;
    });
    return at;
  };
  DirectDriver driver(*runner);
  const int sequence = driver.NewSequence();
  const uint64_t before = phase();
  EXPECT_TRUE(driver.Prefill(sequence, Prompt(rows), rows).ok());
  return phase() - before;
}

// RegionsPerLayer() equals the regions that a step takes, measured as the difference that one more
// layer makes.
TEST_P(FusionTest, FusionTakesFewerParallelRegions) {
  const model::ModelConfig config = LoadSpec(SmallSpec())->config();
  for (const int rows : {1, 100}) {
    int regions[2];
    for (const bool fuse : {false, true}) {
      regions[fuse] = model::Decoder::RegionsPerLayer(config, fuse, 2, rows);
      EXPECT_EQ(PhasesOfStep(GetParam(), 3, fuse, rows) - PhasesOfStep(GetParam(), 2, fuse, rows),
                static_cast<uint64_t>(regions[fuse]))
          << rows << " rows, " << (fuse ? "fused" : "one operation at a time");
    }
    std::printf("parallel regions per layer at %d rows: %d, one operation at a time %d\n", rows,
                regions[true], regions[false]);
    EXPECT_LT(regions[true], regions[false]);
  }
  EXPECT_LT(model::Decoder::RegionsPerLayer(config, true, 2, 1),
            model::Decoder::RegionsPerLayer(config, true, 2, 100));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, FusionTest, testing::ValuesIn(kernels::DetectIsas()),
                         [](const auto& isa) { return std::string(kernels::IsaName(isa.param)); });

}  // namespace
}  // namespace tutti::runner
