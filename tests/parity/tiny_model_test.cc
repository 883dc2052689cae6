// Every tensor type, head and rope variant, on generated checkpoints against the plain
// double-precision reference.
#include "tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runner/testing/direct_driver.h"
#include "sampled.h"
#include "tensor/transcoded.h"

namespace tutti::parity {
namespace {

using gguf::testing::CheckpointSpec;
using gguf::testing::RopeScaling;
using kernels::Isa;
using model::WeightMode;
using runner::DirectDriver;
using tensor::DType;

CheckpointSpec SmallSpec() {
  CheckpointSpec spec;
  spec.context = 256;
  return spec;
}

std::vector<TokenId> SomePrompt(int vocab_size, int count) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < count; ++i) prompt.push_back((i * 37 + 11) % vocab_size);
  return prompt;
}

// Greedy decoding compared with the reference, which is fed the runner's tokens. At every step the
// reference's logit of the runner's token must be within `tie` of its best one, and the runner's
// log-probabilities within `tolerance` of the reference's.
struct Comparison {
  int tokens = 0;
  int same = 0;
  double worst_gap = 0;    // reference's best logit - its logit of the runner's token
  double worst_error = 0;  // of a log-probability of the 20 most probable tokens
};

Comparison Compare(const TinyModel& model, engine::ModelRunner& runner, int prompt_tokens,
                   int new_tokens) {
  api::SamplingParams params = runner::GreedyParams();
  params.logprobs = 20;
  DirectDriver driver(runner, 7);
  const int sequence = driver.NewSequence(params);
  std::vector<TokenId> all = SomePrompt(model.reference.vocab_size, prompt_tokens);
  DirectDriver::Part part{sequence, all};
  Comparison out;
  std::vector<engine::SliceResult> results;
  for (int i = 0; i < new_tokens; ++i) {
    auto result = driver.Step({&part, 1});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return out;
    EXPECT_TRUE(result->slices[0].status.ok()) << result->slices[0].status;
    results.push_back(result->slices[0]);
    part.tokens = {result->slices[0].token};
    all.push_back(result->slices[0].token);
  }
  const auto logits = model.reference.Logits(all);  // one pass scores all steps
  for (int i = 0; i < new_tokens; ++i) {
    const auto& row = logits[static_cast<size_t>(prompt_tokens + i - 1)];
    const auto logprobs = LogSoftmax(row);
    const auto best = std::max_element(row.begin(), row.end());
    const auto& result = results[static_cast<size_t>(i)];
    ++out.tokens;
    out.same += best - row.begin() == result.token ? 1 : 0;
    out.worst_gap = std::max(out.worst_gap, *best - row[static_cast<size_t>(result.token)]);
    for (const auto& top : result.logprobs->top) {
      const double error =
          std::fabs(static_cast<double>(top.logprob) - logprobs[static_cast<size_t>(top.token)]);
      out.worst_error = std::max(out.worst_error, error);
    }
  }
  return out;
}

std::vector<DType> EveryType() {
  std::vector<DType> types(std::begin(tensor::kReadableTypes), std::end(tensor::kReadableTypes));
  types.insert(types.end(), std::begin(tensor::kTranscodedTypes),
               std::end(tensor::kTranscodedTypes));
  return types;
}

class TinyModelTest : public testing::TestWithParam<Isa> {};

// Float weights and activations: the only differences are the order of sums and the 16-bit
// transcendental error.
TEST_P(TinyModelTest, FloatPathServesEveryTypeAsTheReference) {
  for (const DType type : CasesOn(GetParam(), EveryType())) {
    CheckpointSpec spec = SmallSpec();
    spec.type = type;
    const TinyModel model = MakeTinyModel(spec, WeightMode::kF32);
    const auto runner = MakeTinyRunner(model.weights, GetParam());
    ASSERT_NE(runner, nullptr);
    const Comparison c = Compare(model, *runner, 40, 24);
    EXPECT_EQ(c.same, c.tokens) << tensor::Name(type);
    EXPECT_LT(c.worst_error, 1e-4) << tensor::Name(type);
  }
}

// Weights as the file has them, activations in int8 blocks, 8-bit KV: errors of a few hundredths
// in a logit, and the best token except where the reference itself nearly ties.
TEST_P(TinyModelTest, Int8PathServesEveryTypeWithinItsRounding) {
  for (const DType type : CasesOn(GetParam(), EveryType())) {
    CheckpointSpec spec = SmallSpec();
    spec.type = type;
    const TinyModel model = MakeTinyModel(spec, WeightMode::kInt8);
    const auto runner = MakeTinyRunner(model.weights, GetParam());
    ASSERT_NE(runner, nullptr);
    const Comparison c = Compare(model, *runner, 40, 24);
    const bool floats = !tensor::IsQuantized(type);  // only the KV cache is rounded
    // Random blocks have heavier tails than encoded weights.
    const double most = floats ? 0.06 : tensor::IsTranscoded(type) ? 0.25 : 0.15;
    EXPECT_LT(c.worst_error, most) << tensor::Name(type);
    EXPECT_LT(c.worst_gap, most) << tensor::Name(type);
    EXPECT_GE(c.same, c.tokens - (floats ? 1 : 6)) << tensor::Name(type);
  }
}

// Weights rounded to 16 bits, float activations, 16-bit KV.
TEST_P(TinyModelTest, SixteenBitWeightsServeWithinTheirRounding) {
  for (const WeightMode mode : {WeightMode::kF16, WeightMode::kBf16}) {
    for (const DType type : {DType::kF32, DType::kQ8_0}) {
      CheckpointSpec spec = SmallSpec();
      spec.type = type;
      const TinyModel model = MakeTinyModel(spec, mode);
      const auto runner = MakeTinyRunner(model.weights, GetParam());
      ASSERT_NE(runner, nullptr);
      const Comparison c = Compare(model, *runner, 40, 24);
      EXPECT_LT(c.worst_error, mode == WeightMode::kF16 ? 0.02 : 0.06) << tensor::Name(type);
      EXPECT_GE(c.same, c.tokens - 2) << tensor::Name(type);
    }
  }
}

// Weights and activations of 16-bit files in bfloat16, where the kernels have its products.
TEST_P(TinyModelTest, PairsOfBfloat16ServeWithinTheirRounding) {
  if (!kernels::KernelsFor(GetParam()).gemm.bf16_pairs) return;
  for (const DType type : {DType::kF16, DType::kBF16}) {
    CheckpointSpec spec = SmallSpec();
    spec.type = type;
    const TinyModel model = MakeTinyModel(spec, WeightMode::kInt8, true);
    ASSERT_NE(model.weights, nullptr);
    EXPECT_TRUE(model.weights->bf16_pairs());
    const auto runner = MakeTinyRunner(model.weights, GetParam());
    ASSERT_NE(runner, nullptr);
    const Comparison c = Compare(model, *runner, 40, 24);
    EXPECT_LT(c.worst_error, 0.08) << tensor::Name(type);
    EXPECT_LT(c.worst_gap, 0.08) << tensor::Name(type);
    EXPECT_GE(c.same, c.tokens - 2) << tensor::Name(type);
  }
}

// Weights in blocks, multiplied as bfloat16: closer to the reference than with activations in int8.
// The scalar table has another one, which every machine can run.
TEST_P(TinyModelTest, BlocksInBfloat16ServeWithinTheirRounding) {
  const bool scalar = GetParam() == kernels::Isa::kScalar;
  const kernels::KernelTable& kernels = scalar ? ScalarTiles() : kernels::KernelsFor(GetParam());
  if (!kernels.gemm.bf16_tiles) return;
  for (const DType type : CasesOn(GetParam(), EveryType())) {
    if (!tensor::IsQuantized(type)) continue;
    CheckpointSpec spec = SmallSpec();
    spec.type = type;
    const TinyModel model = MakeTinyModel(spec, WeightMode::kInt8, true);
    ASSERT_NE(model.weights, nullptr);
    EXPECT_TRUE(model.weights->bf16_tiles());
    const auto runner = MakeTinyRunner(model.weights, kernels);
    ASSERT_NE(runner, nullptr);
    const Comparison c = Compare(model, *runner, 40, 24);
    const double most = tensor::IsTranscoded(type) ? 0.15 : 0.1;
    EXPECT_LT(c.worst_error, most) << tensor::Name(type);
    EXPECT_LT(c.worst_gap, most) << tensor::Name(type);
    EXPECT_GE(c.same, c.tokens - 3) << tensor::Name(type);
  }
}

TEST_P(TinyModelTest, HeadsAndRopeVariantsMatchTheReference) {
  CheckpointSpec base = SmallSpec();
  base.width = 128;
  base.head_width = 32;
  base.feed_forward = 192;
  std::vector<CheckpointSpec> specs;
  for (const bool tied : {true, false}) {
    for (const RopeScaling rope :
         {RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kLlama3}) {
      CheckpointSpec spec = base;
      spec.tied = tied;
      spec.rope = rope;
      specs.push_back(spec);
    }
  }
  for (const uint32_t kv_heads :
       {1u, 3u, 6u}) {  // multi-query, grouped, one to one; heads x 32 is not the width
    CheckpointSpec spec = base;
    spec.heads = 6;
    spec.kv_heads = kv_heads;
    spec.head_width = 32;
    spec.rope_base = 100000.0f;
    specs.push_back(spec);
  }
  for (CheckpointSpec& spec : specs) {
    spec.type = DType::kQ8_0;
    spec.embedding_type = DType::kF16;
    const TinyModel model = MakeTinyModel(spec, WeightMode::kF32);
    const auto runner = MakeTinyRunner(model.weights, GetParam());
    ASSERT_NE(runner, nullptr);
    // Past 128 positions, where all bands of the Llama 3 scaling have turned.
    const Comparison c = Compare(model, *runner, 120, 24);
    EXPECT_EQ(c.same, c.tokens) << "tied " << spec.tied << " rope " << static_cast<int>(spec.rope)
                                << " kv heads " << spec.kv_heads;
    EXPECT_LT(c.worst_error, 1e-4);
  }
}

// Files mix types by layer part: value in one type, query and key in another, gate and up apart.
TEST_P(TinyModelTest, MatricesOfDifferentTypesInOneLayerMatchTheReference) {
  CheckpointSpec spec = SmallSpec();
  spec.layers = 1;
  spec.type = DType::kQ4_0;
  gguf::testing::CheckpointSpec other = spec;
  other.type = DType::kQ8_0;
  // Two writers of the same model in two types; the mixed file takes some tensors from each.
  const TinyModel low = MakeTinyModel(spec, WeightMode::kF32);
  const TinyModel high = MakeTinyModel(other, WeightMode::kF32);
  spec.tensors = false;
  gguf::testing::Writer writer = gguf::testing::MakeCheckpoint(spec);
  TinyModel mixed;
  mixed.reference = low.reference;
  const auto add = [&](const std::string& name, DType type, std::initializer_list<uint64_t> ne,
                       bool from_high) {
    const auto& values = (from_high ? high : low).reference.tensors.at(name);
    writer.Tensor(name, type, ne, values);  // exact: the values came from this encoding
    mixed.reference.tensors[name] = values;
  };
  const uint64_t vocabulary = static_cast<uint64_t>(low.reference.vocab_size);
  add("token_embd.weight", DType::kQ8_0, {256, vocabulary}, true);
  add("output_norm.weight", DType::kF32, {256}, true);
  add("blk.0.attn_norm.weight", DType::kF32, {256}, true);
  add("blk.0.attn_q.weight", DType::kQ4_0, {256, 256}, false);
  add("blk.0.attn_k.weight", DType::kQ4_0, {256, 128}, false);
  add("blk.0.attn_v.weight", DType::kF16, {256, 128}, true);
  add("blk.0.attn_output.weight", DType::kF32, {256, 256}, true);
  add("blk.0.ffn_norm.weight", DType::kF32, {256}, true);
  add("blk.0.ffn_gate.weight", DType::kQ4_0, {256, 512}, false);
  add("blk.0.ffn_up.weight", DType::kQ8_0, {256, 512}, true);
  add("blk.0.ffn_down.weight", DType::kF16, {512, 256}, true);
  const auto bytes = writer.Build();
  const auto file = gguf::File::FromSource(gguf::MemorySource(bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const gguf::TensorInfo& tensor :
       (*file)->tensors()) {  // some were rounded to F16: what the file holds counts
    mixed.reference.tensors[std::string(tensor.name)] = *(*file)->ReadFloats(tensor);
  }
  for (const WeightMode mode : {WeightMode::kF32, WeightMode::kInt8}) {
    // Value and down are of 16 bits: the first shares its activations with blocks of 4 and stays
    // among the floats, the second has its own.
    for (const bool fuse : {true, false}) {
      const bool pairs = kernels::KernelsFor(GetParam()).gemm.bf16_pairs;
      const auto weights =
          model::Weights::Load(**file, {.mode = mode, .bf16_pairs = pairs, .fuse = fuse});
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_EQ((*weights)->bf16_pairs(), pairs && mode == WeightMode::kInt8);
      const auto runner = MakeTinyRunner(*weights, GetParam());
      ASSERT_NE(runner, nullptr);
      const Comparison c = Compare(mixed, *runner, 40, 24);
      EXPECT_LT(c.worst_error, mode == WeightMode::kF32 ? 1e-4 : 0.15);
      EXPECT_GE(c.same, mode == WeightMode::kF32 ? c.tokens : c.tokens - 6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, TinyModelTest, testing::ValuesIn(kernels::DetectIsas()),
                         [](const auto& isa) { return std::string(kernels::IsaName(isa.param)); });

}  // namespace
}  // namespace tutti::parity
