// Configurations of Gemma 3n and 4.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "kernels/rows_rope.h"
#include "model/decoder.h"
#include "model/testing/config_reading.h"

namespace tutti::model {
namespace {

using gguf::testing::Writer;
using testing::ExpectFolderRefused;
using ::testing::HasSubstr;
using testing::ReadFolder;

// The sizes of heads in layers of both kinds, as 5.24 of transformers writes them and as older
// files have them.
TEST(ModelConfigTest, ReadsTheLayerShapesOfGemma4) {
  const std::string gemma = R"("model_type":"gemma4_text","head_dim":32,"sliding_window":16,
      "hidden_size_per_layer_input":0,"layer_types":["sliding_attention","full_attention",
      "sliding_attention","full_attention"],)";
  const std::string older = R"("attention_k_eq_v":true,"global_head_dim":64,
      "num_global_key_value_heads":1)";
  const std::string newer = R"("attention_k_eq_v":true,"per_layer_config":{
      "1":{"head_dim":64,"num_key_value_heads":1},"3":{"head_dim":64,"num_key_value_heads":1}})";
  for (const std::string& sizes : {older, newer}) {
    const auto config = ReadFolder(gemma + sizes);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->windowed, (std::vector<bool>{true, false, true, false}));
    EXPECT_EQ(config->head_dim_of(0), 32);
    EXPECT_EQ(config->head_dim_of(1), 64);
    EXPECT_EQ(config->kv_heads_of(0), 2);
    EXPECT_EQ(config->kv_heads_of(1), 1);
    EXPECT_TRUE(config->window_heads_differ());
    EXPECT_TRUE(config->has_values(0));
    EXPECT_FALSE(config->has_values(1));
    EXPECT_EQ(config->attention_scale, 1.0);
    EXPECT_EQ(config->attention_shape(true).rope_dims, 32);
    // A quarter of 32 pairs turns.
    ASSERT_EQ(config->rope_freq_factors.size(), 32U);
    EXPECT_EQ(config->rope_freq_factors[7], 1.0F);
    EXPECT_GT(config->rope_freq_factors[8], 1e29F);
    // int8 keys and values of 32 tokens, with two scales each.
    const kernels::KernelTable& table = kernels::KernelsFor(kernels::Isa::kScalar);
    const size_t window = 2 * (2 * 2 * 32 * 32 + 2 * 2 * 32 * 4);
    const size_t full = 2 * (2 * 64 * 32 + 2 * 32 * 4);
    EXPECT_EQ(Decoder::WindowBlockBytes(*config, WeightMode::kInt8, table), window);
    EXPECT_EQ(Decoder::KvBlockBytes(*config, WeightMode::kInt8, table), window + full);
  }
  const auto plain = ReadFolder(gemma + R"("global_head_dim":32,"num_global_key_value_heads":1)");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->kv_heads, 2) << "that number has no effect where values are not keys";
  EXPECT_FALSE(plain->window_heads_differ());
  const auto whole = ReadFolder(gemma + R"("per_layer_config":{})");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->head_dim, 32);

  const auto refused = [&](const std::string& keys, const std::string& part) {
    ExpectFolderRefused(gemma + keys, part);
  };
  refused(R"("per_layer_config":{"1":{"head_dim":64}})", "per_layer_config");
  refused(R"("per_layer_config":{"0":{"head_dim":64},"1":{"head_dim":64},"3":{"head_dim":64}})",
          "per_layer_config");
  refused(R"("per_layer_config":{"1":{"head_dim":64},"3":{"head_dim":32}})", "per_layer_config");
  refused(R"("per_layer_config":{"1":{"x":1},"3":{"x":1}})", "per_layer_config has \"x\"");
  refused(R"("per_layer_config":7)", "per_layer_config must be an object");
  refused(R"("global_head_dim":24)", "multiple of 16 from 16 to 512");
  refused(R"("global_head_dim":528)", "multiple of 16 from 16 to 512");
  refused(R"("attention_k_eq_v":true,"num_global_key_value_heads":3)", "3 kv heads");
  refused(R"("use_bidirectional_attention":"all")", "use_bidirectional_attention");
  refused(R"("hidden_activation":"silu")", "hidden_activation");
  refused(R"("attention_bias":true)", "attention_bias");
}

TEST(ModelConfigTest, ReadsWhatLayersOfGemma4Share) {
  const std::string gemma = R"("model_type":"gemma4_text","head_dim":32,"global_head_dim":32,
      "sliding_window":16,"layer_types":["sliding_attention","full_attention",
      "sliding_attention","full_attention"],"vocab_size_per_layer_input":40,)";
  const auto config = ReadFolder(gemma + R"("hidden_size_per_layer_input":32,
      "num_kv_shared_layers":2,"use_double_wide_mlp":true)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_layer, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(config->feed_forwards, (std::vector<int>{96, 96, 192, 192}));
  EXPECT_EQ(config->layer_inputs, 32);
  const kernels::KernelTable& table = kernels::KernelsFor(kernels::Isa::kScalar);
  const size_t layer = 2 * 2 * (32 * 32 + 32 * 4);  // int8, two kv heads
  EXPECT_EQ(Decoder::WindowBlockBytes(*config, WeightMode::kInt8, table), layer);
  EXPECT_EQ(Decoder::KvBlockBytes(*config, WeightMode::kInt8, table), 2 * layer);

  const auto refused = [&](const std::string& keys, const std::string& part) {
    ExpectFolderRefused(gemma + keys, part);
  };
  const std::string none = R"("hidden_size_per_layer_input":0,)";
  refused(none + R"("num_kv_shared_layers":3)", "no layer of its kind has keys for layer 1");
  refused(none + R"("num_kv_shared_layers":4)", "num_kv_shared_layers is 4 of 4 layers");
  refused(none + R"("num_kv_shared_layers":-1)", "num_kv_shared_layers");
  refused(R"("hidden_size_per_layer_input":24)", "hidden_size_per_layer_input is 24");
  refused(R"("hidden_size_per_layer_input":32,"vocab_size_per_layer_input":39)",
          "vocab_size_per_layer_input is 39, but there are 40 tokens");
  refused(none + R"("enable_moe_block":true)", "num_experts is missing");
  refused(none + R"("enable_moe_block":true,"num_experts":4,"top_k_experts":5)", "top_k_experts");
  refused(none + R"("enable_moe_block":true,"num_experts":4,"top_k_experts":2)",
          "moe_intermediate_size is missing");
}

constexpr std::string_view kGemma3n = R"("model_type":"gemma3n_text","head_dim":32,
    "sliding_window":16,"hidden_size_per_layer_input":32,"vocab_size_per_layer_input":36,
    "laurel_rank":32,"layer_types":["sliding_attention","full_attention","sliding_attention",
    "sliding_attention"],)";

TEST(ModelConfigTest, ReadsTheStreamsOfGemma3n) {
  // The keys of the published files that change no answer, too.
  const auto config = ReadFolder(std::string(kGemma3n) + R"("num_kv_shared_layers":2,
      "activation_sparsity_pattern":[0.95,0.0,0.5,0.999999],"intermediate_size":[96,96,64,32],
      "altup_active_idx":2,"query_pre_attn_scalar":256,"altup_coef_clip":120.0,
      "altup_lr_multiplier":1.0,"rope_local_base_freq":5e3,"final_logit_softcapping":null)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->streams, 4);
  EXPECT_EQ(config->active_stream, 2);
  EXPECT_EQ(config->laurel_rank, 32);
  EXPECT_EQ(config->layer_inputs, 32);
  EXPECT_EQ(config->layer_vocab, 36) << "tokens beyond have the row of token 0";
  EXPECT_EQ(config->feed_forwards, (std::vector<int>{96, 96, 64, 32}));
  EXPECT_EQ(config->kv_layer, (std::vector<int>{0, 1, 0, 0}));
  EXPECT_EQ(config->rope_window_freq_base, 5e3);
  EXPECT_EQ(config->attention_scale, 1.0);
  EXPECT_EQ(config->logit_softcap, 0);
  // Quantiles of a normal distribution.
  EXPECT_NEAR(config->gate_cutoffs[0], 1.6448536, 1e-6);
  EXPECT_FALSE(config->cuts_gates(1));
  EXPECT_NEAR(config->gate_cutoffs[2], 0, 1e-6);
  EXPECT_TRUE(config->cuts_gates(2));
  EXPECT_NEAR(config->gate_cutoffs[3], 4.7534243, 1e-5);
  const kernels::KernelTable& table = kernels::KernelsFor(kernels::Isa::kScalar);
  const size_t layer = 2 * 2 * (32 * 32 + 32 * 4);  // int8, two kv heads
  EXPECT_EQ(Decoder::WindowBlockBytes(*config, WeightMode::kInt8, table), layer);
  EXPECT_EQ(Decoder::KvBlockBytes(*config, WeightMode::kInt8, table), 2 * layer);

  // The defaults of transformers' class: gates are cut in the first ten layers of more.
  const auto few = ReadFolder(std::string(kGemma3n) + R"("num_kv_shared_layers":0)");
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_EQ(few->logit_softcap, 30);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(few->cuts_gates(i)) << i;
  const auto full =
      ReadFolder(std::string(kGemma3n) +
                 R"("num_kv_shared_layers":0,"layer_types":["full_attention","full_attention",
        "full_attention","full_attention"])");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->window, 0);
}

TEST(ModelConfigTest, RefusesFaultsOfGemma3n) {
  const auto refused = [&](const std::string& keys, const std::string& part) {
    ExpectFolderRefused(std::string(kGemma3n) + R"("num_kv_shared_layers":0,)" + keys, part);
  };
  for (const char* streams : {"0", "1", "9", "2.0", "\"4\""})
    refused(std::string(R"("altup_num_inputs":)") + streams, "altup_num_inputs");
  refused(R"("altup_active_idx":4)", "altup_active_idx must be a whole number from 0 to 3");
  refused(R"("altup_active_idx":-1)", "altup_active_idx");
  refused(R"("altup_correct_scale":false)", "altup_correct_scale");
  for (const char* rank : {"0", "16", "48"})
    refused(std::string(R"("laurel_rank":)") + rank, "laurel_rank");
  for (const char* parts : {"[0.0,0.0,0.0]", "[0.0,0.0,0.0,0.0,0.0]", "[0.0,1.0,0.0,0.0]",
                            "[0.0,-0.1,0.0,0.0]", "[0.0,\"0.5\",0.0,0.0]", "0.5", "[]", "{}"})
    refused(std::string(R"("activation_sparsity_pattern":)") + parts,
            "activation_sparsity_pattern must be a list of 4 numbers");
  refused(R"("intermediate_size":[96,96,96])", "intermediate_size");
  refused(R"("intermediate_size":[96,96,96,40])", "intermediate_size is 40 in layer 3");
  refused(R"("intermediate_size":[96,96,96,"96"])", "intermediate_size");
  refused(R"("num_key_value_heads":[2,2,2,2])", "num_key_value_heads");
  refused(R"("hidden_size_per_layer_input":0)", "hidden_size_per_layer_input is 0");
  refused(R"("hidden_size_per_layer_input":24)", "hidden_size_per_layer_input is 24");
  refused(R"("vocab_size_per_layer_input":0)", "vocab_size_per_layer_input is 0");
  refused(R"("vocab_size_per_layer_input":41)", "vocab_size_per_layer_input is 41");
  refused(R"("hidden_activation":"silu")", "hidden_activation");
  refused(R"("attention_bias":true)", "attention_bias");
  refused(R"("rope_parameters":{"sliding_attention":{"rope_type":"linear"}})", "rope_type");
  ExpectFolderRefused(std::string(kGemma3n) + R"("num_kv_shared_layers":3)",
                      "no layer of its kind has keys for layer 1");
  ExpectFolderRefused(std::string(kGemma3n) + R"("num_kv_shared_layers":4)",
                      "num_kv_shared_layers is 4 of 4 layers");
  ExpectFolderRefused(std::string(kGemma3n) + R"("layer_scales":1)",
                      "num_kv_shared_layers is 15 of 4 layers");
}

// A GGUF has bounds of gates where a folder has shares, and the rank in its tensors' shape.
TEST(ModelConfigTest, ReadsAGgufOfGemma3n) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  struct Variant {
    std::vector<float> cutoffs = {1.5F, kNone, kNone};
    uint32_t streams = 4, active = 1, rank = 32;
    bool left = true;
    float shared = 1;  // a float in published files
  };
  const auto read = [](const Variant& variant) {
    Writer writer;
    writer.String("general.architecture", "gemma3n");
    for (const auto& [key, value] : std::initializer_list<std::pair<const char*, uint32_t>>{
             {"block_count", 3},
             {"context_length", 64},
             {"embedding_length", 32},
             {"feed_forward_length", 32},
             {"attention.head_count", 2},
             {"attention.head_count_kv", 1},
             {"attention.key_length", 16},
             {"attention.value_length", 16},
             {"attention.sliding_window", 16},
             {"embedding_length_per_layer_input", 32},
             {"altup.num_inputs", variant.streams},
             {"altup.active_idx", variant.active}})
      writer.U32(fmt::format("gemma3n.{}", key), value);
    writer.F32("gemma3n.attention.layer_norm_rms_epsilon", 1e-6F);
    writer.F32("gemma3n.attention.shared_kv_layers", variant.shared);
    if (!variant.cutoffs.empty())
      writer.Floats("gemma3n.activation_sparsity_scale", variant.cutoffs);
    writer.Tensor("token_embd.weight", tensor::DType::kF32, {32, 40}, std::vector<float>(32 * 40));
    if (variant.left)
      writer.Tensor("blk.0.laurel_l.weight", tensor::DType::kF32, {32, variant.rank},
                    std::vector<float>(size_t{32} * variant.rank));
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    CHECK(file.ok()) << file.status();
    return ReadModelConfig(**file);
  };
  const auto config = read({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->cuts_gates(0));
  EXPECT_FALSE(config->cuts_gates(1));
  EXPECT_EQ(config->gate_cutoffs[0], 1.5F);
  EXPECT_EQ(config->laurel_rank, 32);
  EXPECT_EQ(config->active_stream, 1);
  EXPECT_EQ(config->layer_vocab, 40);
  EXPECT_EQ(config->logit_softcap, 30) << "without a key";
  EXPECT_EQ(config->kv_layer, (std::vector<int>{0, 1, 1}));

  const auto refused = [&](const Variant& variant, const std::string& part,
                           const std::string& reason = "model_hparam") {
    const auto faulty = read(variant);
    ASSERT_FALSE(faulty.ok()) << part;
    EXPECT_EQ(faulty.status().reason(), reason);
    EXPECT_THAT(faulty.status().message(), HasSubstr(part));
  };
  const std::string cutoffs = "gemma3n.activation_sparsity_scale";
  refused({.cutoffs = {}}, cutoffs);
  refused({.cutoffs = {1.5F}}, cutoffs);
  refused({.cutoffs = {1.5F, kNone, std::numeric_limits<float>::quiet_NaN()}}, cutoffs);
  refused({.cutoffs = {1.5F, kNone, -kNone}}, cutoffs);
  for (const float shared : {-1.0F, 1.5F, kNone, 1e9F})
    refused({.shared = shared}, "gemma3n.attention.shared_kv_layers");
  refused({.streams = 1, .active = 0}, "gemma3n.altup.num_inputs");
  refused({.streams = 9}, "gemma3n.altup.num_inputs");
  refused({.active = 4}, "gemma3n.altup.active_idx");
  refused({.rank = 16}, "laurel_rank is 16");
  refused({.left = false}, "blk.0.laurel_l.weight", "model_tensor_missing");
}

}  // namespace
}  // namespace tutti::model
