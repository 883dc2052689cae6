#include "tiny_model.h"

#include <gtest/gtest.h>

#include "gguf/file.h"

namespace tutti::parity {

TinyModel MakeTinyModel(const gguf::testing::CheckpointSpec& spec, model::WeightMode mode,
                        bool in_bf16) {
  TinyModel out;
  const gguf::testing::Bytes bytes = gguf::testing::MakeCheckpoint(spec).Build();
  const auto file = gguf::File::FromSource(gguf::MemorySource(bytes));
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return out;
  auto weights = model::Weights::Load(
      **file, {.mode = mode, .threads = 2, .bf16_pairs = in_bf16, .bf16_tiles = in_bf16});
  EXPECT_TRUE(weights.ok()) << weights.status();
  if (weights.ok()) out.weights = *weights;

  ReferenceLlama& r = out.reference;
  r.layers = static_cast<int>(spec.layers);
  r.width = static_cast<int>(spec.width);
  r.feed_forward = static_cast<int>(spec.feed_forward);
  r.heads = static_cast<int>(spec.heads);
  r.kv_heads = static_cast<int>(spec.kv_heads);
  r.head_dim = static_cast<int>(spec.head_width);
  r.rope_dims = static_cast<int>(spec.head_width);
  r.rope_base = static_cast<double>(spec.rope_base);
  r.rope_linear_factor = spec.rope == gguf::testing::RopeScaling::kLinear ? 4.0 : 1.0;
  for (const gguf::TensorInfo& tensor : (*file)->tensors()) {
    auto values = (*file)->ReadFloats(tensor);
    EXPECT_TRUE(values.ok()) << values.status();
    if (!values.ok()) continue;
    if (tensor.name == "rope_freqs.weight") {
      r.rope_freq_factors.assign(values->begin(), values->end());
    } else {
      r.tensors[std::string(tensor.name)] = *std::move(values);
    }
  }
  r.vocab_size = static_cast<int>(r.tensors["token_embd.weight"].size() / spec.width);
  return out;
}

const kernels::KernelTable& ScalarTiles() {
  static const kernels::KernelTable& scalar = kernels::KernelsFor(kernels::Isa::kScalar);
  static const kernels::KernelTable table = {scalar.isa,
                                             kernels::ScalarBf16TilesGemmKernels(),
                                             scalar.attention,
                                             scalar.rows,
                                             scalar.span_attention,
                                             scalar.recurrent};
  return table;
}

std::unique_ptr<runner::CpuModelRunner> MakeTinyRunner(
    std::shared_ptr<const model::Weights> weights, kernels::Isa isa, int workers) {
  return MakeTinyRunner(std::move(weights), kernels::KernelsFor(isa), workers);
}

std::unique_ptr<runner::CpuModelRunner> MakeTinyRunner(
    std::shared_ptr<const model::Weights> weights, const kernels::KernelTable& kernels,
    int workers) {
  if (weights == nullptr) return nullptr;
  runner::CpuRunnerOptions options;
  options.kernels = &kernels;
  options.pool =
      std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = workers});
  options.kv_bytes = size_t{32} << 20;
  options.context = weights->config().context_length;
  options.max_step_tokens = 128;
  auto runner = runner::CpuModelRunner::Create(std::move(weights), options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  return runner.ok() ? std::move(runner).value() : nullptr;
}

}  // namespace tutti::parity
