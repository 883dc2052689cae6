// Adapters through the whole forward pass: against weights that an adapter was merged into, and
// rows of different adapters in one step against each of them alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "model/testing/lora_files.h"
#include "runner/cpu_model_runner.h"
#include "runner/testing/direct_driver.h"

namespace tutti::runner {
namespace {

using gguf::testing::CheckpointSpec;
using kernels::Isa;
using model::WeightMode;
using model::testing::LoraMatrices;
using model::testing::LoraMatrix;
using model::testing::LoraSpec;
using tensor::DType;

CheckpointSpec LoraBase(DType type = DType::kF32) {
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

std::shared_ptr<const model::Weights> LoadBase(const gguf::testing::Writer& writer,
                                               WeightMode mode) {
  const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  auto weights = model::Weights::Load(**file, {.mode = mode});
  CHECK(weights.ok()) << weights.status();
  return *weights;
}

// The base with the matrices' products added to its weights.
std::shared_ptr<const model::Weights> LoadMerged(CheckpointSpec spec, const LoraSpec& lora,
                                                 const std::vector<LoraMatrix>& matrices) {
  const auto sound =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  CHECK(sound.ok());
  spec.tensors = false;
  gguf::testing::Writer writer = gguf::testing::MakeCheckpoint(spec);
  for (const gguf::TensorInfo& tensor : (*sound)->tensors()) {
    std::vector<float> values = *(*sound)->ReadFloats(tensor);
    for (const LoraMatrix& matrix : matrices) {
      if (matrix.target + ".weight" != tensor.name) continue;
      for (size_t row = 0; row < matrix.outputs; ++row) {
        for (size_t column = 0; column < matrix.inputs; ++column) {
          double sum = 0;
          for (size_t k = 0; k < matrix.rank; ++k) {
            sum += static_cast<double>(matrix.b[row * matrix.rank + k]) *
                   static_cast<double>(matrix.a[k * matrix.inputs + column]);
          }
          float& value = values[row * matrix.inputs + column];
          value = static_cast<float>(static_cast<double>(value) +
                                     sum * static_cast<double>(lora.alpha) / lora.rank);
        }
      }
    }
    gguf::testing::WriterTensor out{
        std::string(tensor.name), {}, static_cast<uint32_t>(DType::kF32), {}, {}};
    for (int d = 0; d < tensor.shape.dims; ++d)
      out.ne.push_back(static_cast<uint64_t>(tensor.shape.ne[static_cast<size_t>(d)]));
    gguf::testing::AppendBytes(&out.data, values.data(), values.size() * sizeof(float));
    writer.Tensor(out);
  }
  return LoadBase(writer, WeightMode::kF32);
}

std::unique_ptr<CpuAdapter> MakeAdapter(const model::Weights& base, const LoraSpec& spec,
                                        const std::vector<LoraMatrix>& matrices) {
  auto file = model::LoraFile::FromGguf(
      model::testing::OpenLoraGguf(model::testing::LoraGguf(matrices, spec)),
      *model::FamilyOfArchitecture("llama"));
  CHECK(file.ok()) << file.status();
  auto lora = model::LoraAdapter::Load(*file, base.config());
  CHECK(lora.ok()) << lora.status();
  return std::make_unique<CpuAdapter>(*lora);
}

// Logits by sequence and position.
using Logits = std::map<std::pair<uint32_t, int>, std::vector<float>>;

struct LoraRun {
  Logits logits;
  std::unique_ptr<CpuModelRunner> runner;

  LoraRun(const std::shared_ptr<const model::Weights>& weights, Isa isa, int workers = 2) {
    CpuRunnerOptions options;
    options.kernels = &kernels::KernelsFor(isa);
    options.pool = std::make_shared<ComputePool>(ComputePoolOptions{.workers = workers});
    options.kv_bytes = CpuModelRunner::KvBlockBytes(*weights, *options.kernels) * 64;
    options.context = weights->config().context_length;
    options.max_step_tokens = 128;
    options.adapters = true;
    options.logits_tap = [this](uint32_t sequence, int position, std::span<const float> row) {
      const std::lock_guard lock(mutex);
      logits[{sequence, position}] = {row.begin(), row.end()};
    };
    auto made = CpuModelRunner::Create(weights, options);
    CHECK(made.ok()) << made.status();
    runner = *std::move(made);
  }
  std::mutex mutex;
};

std::vector<TokenId> LoraPrompt(int count, int salt) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < count; ++i) prompt.push_back((i * 31 + 7 * salt + 5) % 300);
  return prompt;
}

// The prompt in steps of `chunk`, then `feed` one token a step.
void Feed(LoraRun& run, const engine::Adapter* adapter, const std::vector<TokenId>& prompt,
          int chunk, const std::vector<TokenId>& feed) {
  DirectDriver driver(*run.runner);
  const int sequence = driver.NewSequence();
  driver.SetAdapter(sequence, adapter);
  CHECK(driver.Prefill(sequence, prompt, chunk).ok());
  const int sequences[] = {sequence};
  for (const TokenId token : feed) {
    std::vector<TokenId> one = {token};
    CHECK(driver.Decode(sequences, one).ok());
  }
}

double GreatestDifference(const Logits& a, const Logits& b) {
  CHECK_EQ(a.size(), b.size());
  double most = 0;
  for (const auto& [place, row] : a) {
    const std::vector<float>& other = b.at(place);
    for (size_t i = 0; i < row.size(); ++i)
      most = std::max(most, std::fabs(static_cast<double>(row[i]) - static_cast<double>(other[i])));
  }
  return most;
}

const std::vector<TokenId> kFeed = {4, 99, 250, 17};

TEST(LoraRunnerTest, EqualsMergedWeights) {
  const CheckpointSpec base = LoraBase();
  const auto weights = LoadBase(gguf::testing::MakeCheckpoint(base), WeightMode::kF32);
  const LoraSpec all;
  std::vector<std::vector<std::string>> sets = {all.targets};
  for (const std::string& target : all.targets) sets.push_back({target});
  for (const Isa isa : kernels::DetectIsas()) {
    for (const std::vector<std::string>& targets : sets) {
      LoraSpec spec;
      spec.rank = targets.size() == 1 ? 5 : 20;
      spec.targets = targets;
      const std::vector<LoraMatrix> matrices = LoraMatrices(base, spec);
      const auto adapter = MakeAdapter(*weights, spec, matrices);
      LoraRun with(weights, isa), merged(LoadMerged(base, spec, matrices), isa),
          without(weights, isa);
      Feed(with, adapter.get(), LoraPrompt(40, 1), 64, kFeed);
      Feed(merged, nullptr, LoraPrompt(40, 1), 64, kFeed);
      Feed(without, nullptr, LoraPrompt(40, 1), 64, kFeed);
      EXPECT_LT(GreatestDifference(with.logits, merged.logits), 1e-4)
          << kernels::IsaName(isa) << " " << targets[0];
      EXPECT_GT(GreatestDifference(with.logits, without.logits), 1e-2) << targets[0];
    }
  }
}

// Four adapters of different ranks, types and targets, and the base, in the same steps.
TEST(LoraRunnerTest, MixedBatchEqualsSoloBitForBit) {
  for (const Isa isa : kernels::DetectIsas()) {
    for (const auto& [type, mode] :
         {std::pair(DType::kQ4_1, WeightMode::kInt8), std::pair(DType::kQ8_0, WeightMode::kInt8),
          std::pair(DType::kF32, WeightMode::kF32), std::pair(DType::kF16, WeightMode::kF16)}) {
      const CheckpointSpec base = LoraBase(type);
      const auto weights = LoadBase(gguf::testing::MakeCheckpoint(base), mode);
      std::vector<std::unique_ptr<CpuAdapter>> adapters;
      LoraSpec spec;
      for (const auto& [rank, values, targets] :
           {std::tuple(8u, DType::kF32, spec.targets),
            std::tuple(33u, DType::kBF16, std::vector<std::string>{"attn_q", "attn_v"}),
            std::tuple(3u, DType::kF16, std::vector<std::string>{"ffn_down"}),
            std::tuple(16u, DType::kF32, std::vector<std::string>{"ffn_up", "attn_output"})}) {
        spec.seed += 1;
        spec.rank = rank;
        spec.type = values;
        spec.targets = targets;
        adapters.push_back(MakeAdapter(*weights, spec, LoraMatrices(base, spec)));
      }
      adapters.push_back(nullptr);  // the base

      // Nine sequences, so that a tile of rows has one adapter or several.
      constexpr int kSequences = 9;
      const auto adapter_of = [&](int i) { return adapters[static_cast<size_t>(i * 3 % 5)].get(); };
      const auto prompt_of = [&](int i) { return LoraPrompt(5 + 2 * i, i); };
      LoraRun mixed(weights, isa, 3);
      DirectDriver driver(*mixed.runner);
      std::vector<DirectDriver::Part> parts;
      std::vector<int> sequences;
      for (int i = 0; i < kSequences; ++i) {
        sequences.push_back(driver.NewSequence());
        driver.SetAdapter(sequences.back(), adapter_of(i));
        parts.push_back({.sequence = sequences.back(), .tokens = prompt_of(i)});
      }
      ASSERT_TRUE(driver.Step(parts).ok());
      for (const TokenId token : kFeed) {
        std::vector<TokenId> feed(kSequences, token);
        ASSERT_TRUE(driver.Decode(sequences, feed).ok());
      }
      for (int i = 0; i < kSequences; ++i) {
        LoraRun solo(weights, isa, 2);
        Feed(solo, adapter_of(i), prompt_of(i), /*chunk=*/3, kFeed);
        for (const auto& [place, row] : solo.logits) {
          const auto found = mixed.logits.find({static_cast<uint32_t>(i), place.second});
          if (found == mixed.logits.end()) continue;  // a chunk's last row
          ASSERT_EQ(std::memcmp(found->second.data(), row.data(), row.size() * sizeof(float)), 0)
              << kernels::IsaName(isa) << " " << type << " sequence " << i << " position "
              << place.second;
        }
      }
      EXPECT_EQ(mixed.logits.size(), static_cast<size_t>(kSequences) * (1 + kFeed.size()));
    }
  }
}

}  // namespace
}  // namespace tutti::runner
