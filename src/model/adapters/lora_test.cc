#include "model/adapters/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "model/testing/decoder_folder.h"
#include "model/testing/lora_files.h"
#include "tensor/blocks.h"

namespace tutti::model {
namespace {

using gguf::testing::CheckpointSpec;
using kernels::kLowRankPanel;
using ::testing::HasSubstr;
using testing::LoraGguf;
using testing::LoraMatrices;
using testing::LoraMatrix;
using testing::LoraSpec;
using testing::LoraStore;
using testing::LoraTensors;

CheckpointSpec LoraBase() {
  CheckpointSpec spec;
  spec.width = 64;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_width = 16;
  spec.feed_forward = 96;
  return spec;
}

ModelConfig ConfigOf(const CheckpointSpec& spec) {
  auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  CHECK(file.ok()) << file.status();
  auto config = ReadModelConfig(**file);
  CHECK(config.ok()) << config.status();
  return *config;
}

const Family& Llama() { return *FamilyOfArchitecture("llama"); }

Result<std::shared_ptr<const LoraAdapter>> LoadGguf(const gguf::testing::Writer& writer,
                                                    const ModelConfig& base,
                                                    const LoraOptions& options = {}) {
  auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  if (!file.ok()) return file.status();
  ASSIGN_OR_RETURN(const LoraFile opened, LoraFile::FromGguf(*file, Llama()));
  return LoraAdapter::Load(opened, base, options);
}

constexpr std::string_view kPeftConfig = R"({"peft_type":"LORA","r":8,"lora_alpha":16})";

Result<std::shared_ptr<const LoraAdapter>> LoadPeft(const safetensors::testing::Writer& writer,
                                                    const ModelConfig& base,
                                                    std::string_view config = kPeftConfig) {
  ASSIGN_OR_RETURN(const LoraFile opened, LoraFile::FromPeft(config, LoraStore(writer), Llama()));
  return LoraAdapter::Load(opened, base);
}

// Value [k][column] of a matrix in panels of float32.
float At(const std::byte* weight, int inner, int k, int column) {
  float value;
  const auto at = (static_cast<size_t>(column / kLowRankPanel) * static_cast<size_t>(inner) +
                   static_cast<size_t>(k)) *
                      kLowRankPanel +
                  static_cast<size_t>(column % kLowRankPanel);
  std::memcpy(&value, weight + at * sizeof value, sizeof value);
  return value;
}

TEST(LoraTest, PacksEachMatrixWhereItsColumnsAre) {
  const CheckpointSpec base = LoraBase();
  const LoraSpec spec;
  const std::vector<LoraMatrix> matrices = LoraMatrices(base, spec);
  const auto adapter = LoadGguf(LoraGguf(matrices, spec), ConfigOf(base), {.scale = 0.5});
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ((*adapter)->matrices(), 14u);
  EXPECT_EQ((*adapter)->max_rank(), 8);
  EXPECT_EQ((*adapter)->digest().size(), 64u);
  const LoraProduct& qkv = (*adapter)->product(1, LoraPlace::kAttentionInput);
  EXPECT_EQ(qkv.inputs, 64);
  EXPECT_EQ(qkv.ranks, 24);
  ASSERT_EQ(qkv.expands.size(), 3u);
  EXPECT_EQ(qkv.expands[0].first_column, 64);  // by name: k is first
  EXPECT_EQ(qkv.expands[1].first_column, 0);
  const LoraProduct& gate_up = (*adapter)->product(0, LoraPlace::kFeedForwardInput);
  ASSERT_EQ(gate_up.expands.size(), 2u);
  EXPECT_EQ(gate_up.expands[0].first_column, 0);
  EXPECT_EQ(gate_up.expands[1].first_column, 16);
  EXPECT_EQ(gate_up.expands[1].step, 32);
  EXPECT_EQ(gate_up.expands[1].scale, 1.0f);  // 16 / 8 * 0.5
  for (const LoraMatrix& matrix : matrices) {
    if (matrix.target != "blk.0.ffn_down") continue;
    const LoraProduct& down = (*adapter)->product(0, LoraPlace::kFeedForwardOutput);
    for (int k = 0; k < 8; ++k) {
      EXPECT_EQ(At(down.shrink, 96, 95, k), matrix.a[static_cast<size_t>(k * 96 + 95)]);
      EXPECT_EQ(At(down.expands[0].weight, 8, k, 63), matrix.b[static_cast<size_t>(63 * 8 + k)]);
    }
  }
}

TEST(LoraTest, BothFormsOfOneAdapterAreEqual) {
  const CheckpointSpec base = LoraBase();
  const ModelConfig config = ConfigOf(base);
  const LoraSpec spec;
  const std::vector<LoraMatrix> matrices = LoraMatrices(base, spec);
  const auto gguf = LoadGguf(LoraGguf(matrices, spec), config);
  const auto peft = LoadPeft(LoraTensors(matrices, base.head_width), config);
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(peft.ok()) << peft.status();
  ASSERT_EQ((*gguf)->bytes(), (*peft)->bytes());
  const LoraProduct& a = (*gguf)->product(0, LoraPlace::kAttentionInput);
  const LoraProduct& b = (*peft)->product(0, LoraPlace::kAttentionInput);
  EXPECT_EQ(std::memcmp(a.shrink, b.shrink, (*gguf)->bytes()), 0);  // the arena begins there
  EXPECT_NE((*gguf)->digest(), (*peft)->digest());
  // A base from a folder has rows of queries in halves, as the adapter's own.
  ModelConfig folder = config;
  folder.rope_mode = kernels::RopeMode::kHalf;
  const auto turned = LoadPeft(LoraTensors(matrices, base.head_width), folder);
  ASSERT_TRUE(turned.ok()) << turned.status();
  const LoraProduct& c = (*turned)->product(0, LoraPlace::kAttentionInput);
  const int q = static_cast<int>(c.expands.size()) - 2;
  EXPECT_EQ(At(c.expands[static_cast<size_t>(q)].weight, 8, 0, 1),
            At(a.expands[static_cast<size_t>(q)].weight, 8, 0, 2));
}

TEST(LoraTest, KeepsSixteenBitsExactly) {
  const CheckpointSpec base = LoraBase();
  LoraSpec spec;
  const std::vector<LoraMatrix> matrices = LoraMatrices(base, spec);
  const auto wide = LoadGguf(LoraGguf(matrices, spec), ConfigOf(base));
  ASSERT_TRUE(wide.ok()) << wide.status();
  for (const tensor::DType type : {tensor::DType::kF16, tensor::DType::kBF16}) {
    spec.type = type;
    const auto narrow = LoadGguf(LoraGguf(matrices, spec), ConfigOf(base));
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    EXPECT_EQ((*narrow)->bytes() * 2, (*wide)->bytes());
  }
}

TEST(LoraTest, NarrowsFloatsToFp16OfFullPrecision) {
  const CheckpointSpec base = LoraBase();
  LoraSpec spec;
  spec.targets = {"ffn_down"};
  std::vector<LoraMatrix> matrices = LoraMatrices(base, spec);
  for (float& value : matrices[0].a) value = std::ldexp(value, -60);
  for (float& value : matrices[0].b) value = std::ldexp(value, 40);
  const auto wide = LoadGguf(LoraGguf(matrices, spec), ConfigOf(base));
  const auto narrow = LoadGguf(LoraGguf(matrices, spec), ConfigOf(base), {.narrow = true});
  ASSERT_TRUE(wide.ok() && narrow.ok()) << narrow.status();
  EXPECT_EQ((*narrow)->type(), kernels::LowRankType::kF16);
  EXPECT_EQ((*narrow)->bytes() * 2, (*wide)->bytes());
  EXPECT_NE((*narrow)->digest(), (*wide)->digest());
  const LoraProduct& full = (*wide)->product(0, LoraPlace::kFeedForwardOutput);
  const LoraProduct& half = (*narrow)->product(0, LoraPlace::kFeedForwardOutput);
  const auto half_at = [](const std::byte* weight, int inner, int k, int column) {
    uint16_t bits;
    std::memcpy(&bits,
                weight + static_cast<size_t>((column / kLowRankPanel * inner + k) * kLowRankPanel +
                                             column % kLowRankPanel) *
                             sizeof bits,
                sizeof bits);
    return tensor::HalfToFloat(bits);
  };
  // One power of two for each matrix; what is left is fp16's rounding.
  const double ratio = double{half.expands[0].scale} / double{full.expands[0].scale};
  float greatest_a = 0, greatest_b = 0;
  int exponent = 0;
  EXPECT_EQ(std::frexp(ratio, &exponent), 0.5);
  for (int k = 0; k < 8; ++k) {
    for (int i = 0; i < 64; ++i) {
      const double a = At(full.shrink, 96, i, k), b = At(full.expands[0].weight, 8, k, i);
      const float half_a = half_at(half.shrink, 96, i, k);
      const float half_b = half_at(half.expands[0].weight, 8, k, i);
      greatest_a = std::max(greatest_a, std::abs(half_a));
      greatest_b = std::max(greatest_b, std::abs(half_b));
      const double product = double{half_a} * double{half_b} * double{half.expands[0].scale};
      EXPECT_NEAR(product, a * b * double{full.expands[0].scale},
                  std::abs(product) / 512 + std::ldexp(double{half.expands[0].scale}, -20));
    }
  }
  EXPECT_TRUE(greatest_a > 0.25f && greatest_a <= 1 && greatest_b > 0.25f && greatest_b <= 1);
  // 16-bit files stay as they are, and sums beyond float32 are refused.
  spec.type = tensor::DType::kBF16;
  const auto kept = LoadGguf(LoraGguf(matrices, spec), ConfigOf(base), {.narrow = true});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ((*kept)->type(), kernels::LowRankType::kBf16);
  EXPECT_EQ((*kept)->digest(), (*LoadGguf(LoraGguf(matrices, spec), ConfigOf(base)))->digest());
  spec.type = tensor::DType::kF32;
  for (auto* values : {&matrices[0].a, &matrices[0].b}) (*values)[3] = 1e38f;
  EXPECT_THAT(
      LoadGguf(LoraGguf(matrices, spec), ConfigOf(base), {.narrow = true}).status().message(),
      HasSubstr("its values are too large"));
}

TEST(LoraTest, ScalesAsPeftDoes) {
  const CheckpointSpec base = LoraBase();
  LoraSpec spec;
  spec.targets = {"attn_q", "ffn_down"};
  const auto writer = LoraTensors(LoraMatrices(base, spec), base.head_width);
  const auto scale = [&](std::string_view json, LoraPlace place) {
    const auto adapter = LoadPeft(writer, ConfigOf(base), json);
    EXPECT_TRUE(adapter.ok()) << adapter.status();
    return adapter.ok() ? (*adapter)->product(1, place).expands[0].scale : 0.0f;
  };
  EXPECT_EQ(scale(R"({"r":8,"lora_alpha":4})", LoraPlace::kAttentionInput), 0.5f);
  EXPECT_EQ(scale(R"({"r":8})", LoraPlace::kAttentionInput), 1.0f);  // alpha is 8 by default
  EXPECT_FLOAT_EQ(scale(R"({"r":8,"lora_alpha":4,"use_rslora":true})", LoraPlace::kAttentionInput),
                  4 / std::sqrt(8.0f));
  // The ranks of the tensors are 8: what r states for others does not matter.
  const std::string patterns = R"({"r":4,"lora_alpha":4,"rank_pattern":{"q_proj":8,"down_proj":8},
      "alpha_pattern":{"layers.1.mlp.down_proj":16,"^model.layers.1.self_attn.q_proj":32}})";
  EXPECT_EQ(scale(patterns, LoraPlace::kAttentionInput), 4.0f);
  EXPECT_EQ(scale(patterns, LoraPlace::kFeedForwardOutput), 2.0f);
}

TEST(LoraTest, RefusesSettingsThatChangeAnswers) {
  const CheckpointSpec base = LoraBase();
  const auto writer = LoraTensors(LoraMatrices(base, {}), base.head_width);
  const auto fault = [&](const std::string& members) {
    return LoadPeft(writer, ConfigOf(base), R"({"r":8,)" + members + "}").status();
  };
  for (const char* members :
       {R"("use_dora":true)", R"("bias":"all")", R"("modules_to_save":["lm_head"])",
        R"("peft_type":"IA3")", R"("layer_replication":[[0,2]])", R"("lora_bias":true)",
        R"("target_parameters":["mlp.experts.gate_up_proj"])", R"("fan_in_fan_out":true)",
        R"("alpha_pattern":{".*q_proj":2})",
        R"("alpha_pattern":{"layers\\.\\d\\.self_attn\\.q_proj":2})",
        R"("rank_pattern":{"q_proj":4})", R"("trainable_token_indices":[1])"}) {
    EXPECT_EQ(fault(members).reason(), "adapter_config") << members;
  }
  EXPECT_TRUE(fault(R"("use_dora":false,"modules_to_save":null,"bias":"none","later":0)").ok());
  EXPECT_EQ(LoadPeft(writer, ConfigOf(base), R"({"r":257})").status().reason(), "model_hparam");
  EXPECT_EQ(LoadPeft(writer, ConfigOf(base), "[]").status().reason(), "model_hparam");
}

TEST(LoraTest, RemarksUnknownKeys) {
  const auto writer = LoraTensors(LoraMatrices(LoraBase(), {}), 16);
  const auto file =
      LoraFile::FromPeft(R"({"r":8,"lora_alpha":16,"later":"x"})", LoraStore(writer), Llama());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->remarks.size(), 1u);
  EXPECT_THAT(file->remarks[0], HasSubstr("\"later\""));
}

TEST(LoraTest, RefusesTensorsOfNoMatrix) {
  const ModelConfig config = ConfigOf(LoraBase());
  const auto with = [&](const std::string& name, std::vector<uint64_t> shape) {
    auto writer = LoraTensors(LoraMatrices(LoraBase(), {}), 16);
    size_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    writer.Floats(name, std::move(shape), std::vector<float>(count, 1.0f));
    return LoadPeft(writer, config).status();
  };
  const std::string layer = "base_model.model.model.layers.0.";
  EXPECT_THAT(with("base_model.model.lm_head.weight", {320, 64}).message(),
              HasSubstr("whole modules are not supported"));
  EXPECT_THAT(with(layer + "mlp.up_proj.lora_magnitude_vector", {96}).message(), HasSubstr("DoRA"));
  EXPECT_THAT(with("base_model.model.model.embed_tokens.lora_embedding_A", {8, 320}).message(),
              HasSubstr("adapters of embeddings"));
  EXPECT_THAT(with(layer + "mlp.other_proj.lora_A.weight", {8, 64}).message(),
              HasSubstr("lora_B of it is missing"));
  for (const char* module : {"lm_head", "model.layers.0.mlp.experts.3.up_proj",
                             "model.layers.0.mlp.other_proj", "model.layers.0.self_attn.x_proj"}) {
    auto writer = LoraTensors(LoraMatrices(LoraBase(), {}), 16);
    const std::string name = std::string("base_model.model.") + module;
    writer.Floats(name + ".lora_A.weight", {8, 64}, std::vector<float>(8 * 64));
    writer.Floats(name + ".lora_B.weight", {64, 8}, std::vector<float>(8 * 64));
    const Status status = LoadPeft(writer, config).status();
    EXPECT_EQ(status.reason(), "adapter_target") << module;
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

TEST(LoraTest, RefusesAnotherBaseByItsFirstTensor) {
  const CheckpointSpec base = LoraBase();
  CheckpointSpec other = base;
  other.feed_forward = 128;
  const Status status = LoadGguf(LoraGguf(LoraMatrices(base, {}), {}), ConfigOf(other)).status();
  EXPECT_EQ(status.reason(), "adapter_shape");
  EXPECT_EQ(status.message(),
            "tensor \"blk.0.ffn_down.weight.lora_b\": it changes a matrix of 64 x 96, and the "
            "model's has 64 x 128; use the adapter's base");
  other = base;
  other.layers = 1;
  EXPECT_THAT(LoadGguf(LoraGguf(LoraMatrices(base, {}), {}), ConfigOf(other)).status().message(),
              HasSubstr("the model has 1 layers"));
}

TEST(LoraTest, RefusesGgufsThatAreNoAdaptersOfTheModel) {
  const CheckpointSpec base = LoraBase();
  const ModelConfig config = ConfigOf(base);
  const std::vector<LoraMatrix> matrices = LoraMatrices(base, {});
  auto writer = LoraGguf(matrices, {});
  writer.Without("general.architecture").String("general.architecture", "qwen2");
  EXPECT_THAT(LoadGguf(writer, config).status().message(), HasSubstr("for \"qwen2\" models"));
  writer = LoraGguf(matrices, {});
  writer.Without("adapter.type").String("adapter.type", "control_vector");
  EXPECT_EQ(LoadGguf(writer, config).status().reason(), "adapter_config");
  writer = LoraGguf(matrices, {});
  writer.Without("adapter.lora.alpha");
  EXPECT_EQ(LoadGguf(writer, config).status().reason(), "gguf_key");
  writer = LoraGguf(matrices, {});
  writer.Without("blk.1.attn_v.weight.lora_a");
  EXPECT_EQ(LoadGguf(writer, config).status().reason(), "adapter_target");
  EXPECT_EQ(LoadGguf(gguf::testing::MakeCheckpoint(base), config).status().reason(),
            "adapter_config");
}

TEST(LoraTest, RefusesValuesThatAreNotFinite) {
  const CheckpointSpec base = LoraBase();
  std::vector<LoraMatrix> matrices = LoraMatrices(base, {});
  matrices[5].b[7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(LoadGguf(LoraGguf(matrices, {}), ConfigOf(base)).status().reason(), "model_nonfinite");
}

TEST(LoraTest, RefusesTwoChangesOfOneMatrix) {
  const CheckpointSpec base = LoraBase();
  std::vector<LoraMatrix> matrices = LoraMatrices(base, {});
  LoraMatrix fused = matrices[0];
  fused.target = "blk.0.attn_qkv";
  fused.outputs = 128;
  fused.b.assign(128 * 8, 0.5f);
  matrices.push_back(fused);
  const Status status = LoadGguf(LoraGguf(matrices, {}), ConfigOf(base)).status();
  EXPECT_THAT(status.message(), HasSubstr("another tensor changes the same matrix"));
}

TEST(LoraTest, TakesFusedMatrices) {
  const CheckpointSpec base = LoraBase();
  LoraSpec spec;
  spec.targets = {"attn_q", "ffn_up"};
  std::vector<LoraMatrix> matrices = LoraMatrices(base, spec);
  for (LoraMatrix& matrix : matrices) {
    const bool qkv = matrix.target.ends_with("attn_q");
    if (qkv) matrix.target = matrix.target.substr(0, 6) + "attn_qkv";
    matrix.outputs = qkv ? 128 : 192;
    matrix.b.resize(size_t{matrix.outputs} * matrix.rank);
    for (size_t i = 0; i < matrix.b.size(); ++i) matrix.b[i] = static_cast<float>(i);
  }
  const auto adapter = LoadGguf(LoraGguf(matrices, spec), ConfigOf(base));
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  const LoraProduct& qkv = (*adapter)->product(0, LoraPlace::kAttentionInput);
  ASSERT_EQ(qkv.expands.size(), 3u);
  EXPECT_EQ(qkv.expands[2].first_column, 96);
  EXPECT_EQ(At(qkv.expands[2].weight, 8, 3, 5), (96 + 5) * 8 + 3);
  const LoraProduct& gate_up = (*adapter)->product(0, LoraPlace::kFeedForwardInput);
  ASSERT_EQ(gate_up.expands.size(), 2u);
  EXPECT_EQ(At(gate_up.expands[0].weight, 8, 3, 5), 5 * 8 + 3);
  EXPECT_EQ(gate_up.expands[1].first_column, 16);
  EXPECT_EQ(At(gate_up.expands[1].weight, 8, 3, 5), (96 + 5) * 8 + 3);
}

TEST(LoraTest, OpensAFolder) {
  const CheckpointSpec base = LoraBase();
  const std::string path = ::testing::TempDir() + "lora_folder";
  std::filesystem::remove_all(path);
  const auto open = [&] { return LoraFile::Open(path, Llama()); };
  EXPECT_EQ(open().status().reason(), "model_not_found");
  std::filesystem::create_directories(path);
  EXPECT_FALSE(IsLoraFolder(path));
  EXPECT_THAT(open().status().message(), HasSubstr("no adapter_config.json"));
  safetensors::testing::WriteFile(path + "/adapter_config.json", kPeftConfig);
  EXPECT_TRUE(IsLoraFolder(path));
  EXPECT_THAT(open().status().message(), HasSubstr("adapter_model.safetensors"));
  const auto writer = LoraTensors(LoraMatrices(base, {}), base.head_width);
  safetensors::testing::WriteFile(path + "/adapter_model.safetensors", writer.Build());
  const auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->front_digest.size(), 64u);
  const auto adapter = LoraAdapter::Load(*opened, ConfigOf(base));
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  // Another scale is another adapter.
  EXPECT_NE((*LoraAdapter::Load(*opened, ConfigOf(base), {.scale = 0.5}))->digest(),
            (*adapter)->digest());
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace tutti::model
