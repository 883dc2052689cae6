// Configurations of families with recurrent layers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gguf/file.h"
#include "kernels/rows_rope.h"
#include "model/decoder.h"
#include "model/recurrence.h"
#include "model/testing/config_reading.h"

namespace tutti::model {
namespace {

using gguf::ValueType;
using gguf::testing::Writer;
using testing::ExpectFolderRefused;
using ::testing::HasSubstr;
using testing::ReadFolder;

TEST(ModelConfigTest, ReadsTheLayersOfLfm2) {
  const std::string lfm2 = R"("model_type":"lfm2",)";
  const std::string kinds = R"("layer_types":["conv","full_attention","conv","conv"])";
  const auto config = ReadFolder(lfm2 + kinds);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrence, Recurrence::kShortConv);
  EXPECT_EQ(config->recurrent, (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(config->attention_layers(), 1);
  EXPECT_EQ(config->conv_taps, 3);
  EXPECT_EQ(config->feed_forward, 256) << "two thirds of 96, rounded up";
  EXPECT_EQ(Decoder::StateBytes(*config), 3U * 2 * 64 * sizeof(float));
  const auto listed = ReadFolder(lfm2 + R"("full_attn_idxs":[1],"block_auto_adjust_ff_dim":false)");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->recurrent, config->recurrent);
  EXPECT_EQ(listed->feed_forward, 96);

  // Its recurrence once stayed with no layer to run it, which a check of the first step ended.
  const auto attentive = ReadFolder(lfm2 + R"("full_attn_idxs":[0,1,2,3])");
  ASSERT_TRUE(attentive.ok()) << attentive.status();
  EXPECT_EQ(attentive->recurrence, Recurrence::kNone);
  EXPECT_TRUE(attentive->recurrent.empty());
  EXPECT_EQ(ShapeOfRecurrence(*attentive).state_floats, 0U);

  ExpectFolderRefused(lfm2 + kinds + R"(,"conv_L_cache":5)", "convolutions see 2 to 4 tokens");
  ExpectFolderRefused(lfm2 + kinds + R"(,"conv_L_cache":1)", "conv_L_cache");
  ExpectFolderRefused(lfm2 + kinds + R"(,"block_multiple_of":0)", "block_multiple_of");
  ExpectFolderRefused(lfm2 + kinds + R"(,"block_ffn_dim_multiplier":1e-3)",
                      "feed-forward of 0 rows");
  ExpectFolderRefused(lfm2 + R"("layer_types":["conv","conv","conv","conv"])",
                      "no layer has attention");
  ExpectFolderRefused(lfm2 + R"("layer_types":["conv","full_attention","conv"])",
                      "a list of 4 kinds");
  ExpectFolderRefused(lfm2 + R"("layer_types":["conv","full_attention","conv","mamba"])",
                      "names \"mamba\" for layer 3");
  ExpectFolderRefused(lfm2 + R"("full_attn_idxs":[1,4])", "full_attn_idxs");
}

TEST(ModelConfigTest, ReadsMamba2OfGranite4) {
  const std::string granite = R"("model_type":"granitemoehybrid","num_local_experts":0,
      "shared_intermediate_size":128,)";
  const std::string kinds = R"("layer_types":["mamba","mamba","attention","mamba"],)";
  const std::string heads = R"("mamba_n_heads":4,"mamba_d_state":16)";
  const auto config = ReadFolder(granite + kinds + heads);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrence, Recurrence::kMamba2);
  EXPECT_EQ(config->attention_layers(), 1);
  EXPECT_EQ(config->feed_forward, 128);
  EXPECT_EQ(config->state_values, 32);
  EXPECT_TRUE(config->conv_bias);
  EXPECT_EQ(config->rope_mode, kernels::RopeMode::kNone);
  const size_t convolution = 3 * (128 + 2 * 16), state = 4 * 16 * 32;
  EXPECT_EQ(Decoder::StateBytes(*config), 3 * (convolution + state) * sizeof(float));
  const auto renamed = ReadFolder(granite + R"("layer_types":["linear_attention",
      "linear_attention","full_attention","linear_attention"],)" +
                                  heads);  // by transformers 5
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  EXPECT_EQ(renamed->recurrent, config->recurrent);
  const auto dense = ReadFolder(granite + R"("position_embedding_type":"rope",
      "layer_types":["attention","attention","attention","attention"])");
  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_EQ(Decoder::StateBytes(*dense), 0U);
  EXPECT_EQ(dense->rope_mode, kernels::RopeMode::kHalf);

  ExpectFolderRefused(granite + kinds + R"("mamba_n_heads":4,"mamba_d_state":12)",
                      "keys are not a multiple of 16");
  ExpectFolderRefused(granite + kinds + R"("mamba_n_heads":16,"mamba_d_state":16)",
                      "values of a head are not a multiple of 16");
  ExpectFolderRefused(granite + kinds + R"("mamba_n_heads":3,"mamba_d_state":16)",
                      "3 heads do not share 128 values evenly");
  ExpectFolderRefused(granite + kinds + heads + R"(,"mamba_n_groups":3)",
                      "groups do not share heads evenly");
  ExpectFolderRefused(granite + kinds + heads + R"(,"mamba_d_head":64)", "mamba_d_head 64");
  ExpectFolderRefused(granite + kinds + heads + R"(,"mamba_d_conv":9)",
                      "convolutions see 2 to 4 tokens");
}

TEST(ModelConfigTest, ReadsTheExpertsOfGranite4) {
  const std::string granite = R"("model_type":"granitemoehybrid",
      "layer_types":["mamba","mamba","attention","mamba"],"mamba_n_heads":4,"mamba_d_state":16,
      "num_experts_per_tok":2,)";
  const auto config =
      ReadFolder(granite + R"("num_local_experts":6,"shared_intermediate_size":160)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->experts, 6);
  EXPECT_EQ(config->experts_used, 2);
  EXPECT_EQ(config->expert_feed_forward, config->feed_forward);
  EXPECT_EQ(config->shared_feed_forward, 160);
  EXPECT_FALSE(config->shared_gate);
  const auto alone = ReadFolder(granite + R"("num_local_experts":6,"shared_intermediate_size":0)");
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->shared_feed_forward, 0);
  ExpectFolderRefused(granite + R"("num_local_experts":1)", "num_experts_per_tok");
  ExpectFolderRefused(granite + R"("num_local_experts":6,"shared_intermediate_size":40)",
                      "not a multiple of 32");
  ExpectFolderRefused(R"("model_type":"granitemoe","num_local_experts":0)",
                      "num_local_experts is missing");
}

TEST(ModelConfigTest, ReadsGatedDeltaNetOfQwen3Next) {
  const std::string next = R"("model_type":"qwen3_next","head_dim":32)";
  const std::string dense = next + R"(,"num_experts":0)";
  const std::string keys = R"(,"linear_num_key_heads":2,"linear_key_head_dim":16)";
  const std::string values = R"(,"linear_num_value_heads":4,"linear_value_head_dim":32)";
  const auto config = ReadFolder(dense + keys + values);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrence, Recurrence::kDeltaNet);
  EXPECT_EQ(config->recurrent, (std::vector<bool>{true, true, true, false}));
  EXPECT_TRUE(config->attention_gate);
  EXPECT_FALSE(config->tiled_heads);
  EXPECT_EQ(config->rope_dims, 8);
  EXPECT_EQ(config->experts, 0);
  const size_t convolution = 3 * (4 * 32 + 2 * 2 * 16), state = 4 * 16 * 32;
  EXPECT_EQ(Decoder::StateBytes(*config), 3 * (convolution + state) * sizeof(float));
  const auto every = ReadFolder(dense + keys + values + R"(,"full_attention_interval":2)");
  ASSERT_TRUE(every.ok()) << every.status();
  EXPECT_EQ(every->recurrent, (std::vector<bool>{true, false, true, false}));
  const auto mixture = ReadFolder(next + keys + values + R"(,"num_experts":4,
      "num_experts_per_tok":2,"moe_intermediate_size":32,"shared_expert_intermediate_size":64,
      "mlp_only_layers":[1])");
  ASSERT_TRUE(mixture.ok()) << mixture.status();
  EXPECT_EQ(mixture->shared_feed_forward, 64);
  EXPECT_TRUE(mixture->shared_gate);
  EXPECT_TRUE(mixture->has_experts(0));
  EXPECT_FALSE(mixture->has_experts(1));

  ExpectFolderRefused(dense + keys + R"(,"linear_num_value_heads":3,"linear_value_head_dim":32)",
                      "groups do not share heads evenly");
  ExpectFolderRefused(dense + keys + R"(,"linear_num_value_heads":4,"linear_value_head_dim":8)",
                      "values of a head are not a multiple of 16");
  ExpectFolderRefused(dense + values + R"(,"linear_num_key_heads":2,"linear_key_head_dim":4)",
                      "keys are not a multiple of 16");
  ExpectFolderRefused(dense + values + R"(,"linear_num_key_heads":0)", "linear_num_key_heads");
  ExpectFolderRefused(dense + keys + values + R"(,"linear_conv_kernel_dim":5)",
                      "convolutions see 2 to 4 tokens");
  ExpectFolderRefused(dense + keys + values + R"(,"full_attention_interval":0)",
                      "full_attention_interval");
  ExpectFolderRefused(dense + keys + values + R"(,"full_attention_interval":5)",
                      "no layer has attention");
  ExpectFolderRefused(dense + keys + values + R"(,"layer_types":["linear_attention","mamba",
      "linear_attention","full_attention"])",
                      "names \"mamba\" for layer 1");
  ExpectFolderRefused(dense + keys + values + R"(,"attention_bias":true)", "attention_bias");
  ExpectFolderRefused(next + keys + values + R"(,"num_experts":4,"num_experts_per_tok":5)",
                      "num_experts_per_tok");
}

TEST(ModelConfigTest, ReadsAttentionAndMamba2OfFalconH1) {
  const std::string falcon = R"("model_type":"falcon_h1","mamba_d_ssm":128,"mamba_n_heads":4,
      "mamba_d_state":16)";
  const auto config = ReadFolder(falcon + R"(,"attention_in_multiplier":2.0,"key_multiplier":0.5,
      "attention_out_multiplier":3.0,"mlp_multipliers":[0.5,2.0],"ssm_in_multiplier":4.0,
      "ssm_multipliers":[1.0,2.0,3.0,4.0,5.0],"ssm_out_multiplier":8.0,"lm_head_multiplier":0.25,
      "embedding_multiplier":6.0)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrent_layers(), 4);
  EXPECT_EQ(config->attention_layers(), 4);
  EXPECT_FALSE(config->state_norm);
  EXPECT_EQ(config->embedding_scale, 6);
  EXPECT_EQ(config->logit_scale, 0.25);
  EXPECT_EQ(config->residual_scale, 4);
  EXPECT_EQ(config->ffn_norm_scale, 0.5);
  EXPECT_EQ(config->value_scale, 1.5);
  EXPECT_EQ(config->attention_scale, 0.5);
  EXPECT_EQ(config->state_scales, (StateScales{4, 8, 12, 16, 20, 2}));
  const auto widened = ReadFolder(R"("model_type":"falcon_h1","mamba_d_ssm":null,
      "mamba_n_heads":4,"mamba_d_state":16,"mamba_d_head":"auto")");
  ASSERT_TRUE(widened.ok()) << widened.status();
  EXPECT_EQ(widened->state_values, 32);

  ExpectFolderRefused(falcon + R"(,"mlp_multipliers":[1.0])", "has 1 numbers, 2 are needed");
  ExpectFolderRefused(falcon + R"(,"ssm_multipliers":[1.0,1.0,1.0,1.0,0.0])", "ssm_multipliers");
  ExpectFolderRefused(falcon + R"(,"ssm_in_multiplier":-1.0)", "ssm_in_multiplier");
  ExpectFolderRefused(falcon + R"(,"mamba_proj_bias":true)", "mamba_proj_bias is true");
  ExpectFolderRefused(falcon + R"(,"projectors_bias":true)", "projectors_bias is true");
  ExpectFolderRefused(falcon + R"(,"mamba_rms_norm":true)", "mamba_norm_before_gate is true");
  ExpectFolderRefused(falcon + R"(,"mamba_d_head":16)", "mamba_d_head 16");
}

TEST(ModelConfigTest, ReadsLayersOfOnePartOfNemotronH) {
  const std::string shape = R"("model_type":"nemotron_h","head_dim":16,"mamba_num_heads":2,
      "mamba_head_dim":32,"ssm_state_size":16,"n_groups":1)";
  const auto config = ReadFolder(shape + R"(,"hybrid_override_pattern":"M-*-")");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrent, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(config->feed_forward_alone, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(config->attention_layers(), 1);
  EXPECT_TRUE(config->has_attention(2));
  EXPECT_FALSE(config->has_feed_forward(2));
  EXPECT_EQ(config->state_values, 32);
  EXPECT_EQ(config->rope_mode, kernels::RopeMode::kNone);
  EXPECT_EQ(
      ReadFolder(shape + R"(,"attention_head_dim":32,"hybrid_override_pattern":"M-*-")")->head_dim,
      32);
  const auto listed = ReadFolder(shape + R"(,"layers_block_type":["mamba","mlp","attention",
      "linear_attention"])");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->recurrent, (std::vector<bool>{true, false, false, true}));

  ExpectFolderRefused(shape, "hybrid_override_pattern");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"M-*")", "for each of 4 layers");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"M-*x")", "must have M, *, - or E");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"-*--")", "has Mamba-2");
  const auto of_width = [](int width) {
    return fmt::format(R"("model_type":"nemotron_h","head_dim":16,"mamba_num_heads":2,
        "mamba_head_dim":{},"ssm_state_size":16,"n_groups":1,"hybrid_override_pattern":"M-*-")",
                       width);
  };
  const auto nano = ReadFolder(of_width(80));  // as Nemotron Nano 9B v2
  ASSERT_TRUE(nano.ok()) << nano.status();
  const size_t convolution = 3 * (2 * 80 + 2 * 16), state = 2 * 80 * 16;
  EXPECT_EQ(Decoder::StateBytes(*nano), (convolution + state) * sizeof(float));
  ExpectFolderRefused(of_width(24), "values of a head are not a multiple of 16");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"M-M-")", "no layer has attention");
  ExpectFolderRefused(shape + R"(,"layers_block_type":["mamba","mlp"])", "a list of 4 kinds");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"M-*-","mlp_hidden_act":"silu")",
                      "mlp_hidden_act");
}

TEST(ModelConfigTest, ReadsTheExpertsOfNemotron3) {
  const std::string shape = R"("model_type":"nemotron_h","head_dim":16,"mamba_num_heads":2,
      "mamba_head_dim":32,"ssm_state_size":16,"n_groups":1,"hybrid_override_pattern":"ME*-",
      "n_routed_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":32)";
  const std::string shared = R"(,"moe_shared_expert_intermediate_size":96)";
  const auto config =
      ReadFolder(shape + shared + R"(,"routed_scaling_factor":2.5,"moe_latent_size":null)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "nemotron_h_moe");
  EXPECT_EQ(config->feed_forward_alone, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(config->without_experts, (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(config->experts, 6);
  EXPECT_EQ(config->expert_feed_forward, 32);
  EXPECT_EQ(config->shared_feed_forward, 96);
  EXPECT_EQ(config->router_score, RouterScore::kSigmoid);
  EXPECT_TRUE(config->router_bias);
  EXPECT_TRUE(config->expert_weights_sum_to_1);
  EXPECT_EQ(config->expert_weights_scale, 2.5F);

  ExpectFolderRefused(shape, "experts of 7688 are not a multiple of 32");  // transformers' default
  ExpectFolderRefused(shape + shared + R"(,"moe_latent_size":16)", "moe_latent_size is set");
  ExpectFolderRefused(shape + shared + R"(,"mlp_bias":true)", "mlp_bias is true");
  ExpectFolderRefused(shape + shared + R"(,"n_group":2)", "n_group is 2");
  ExpectFolderRefused(shape + shared + R"(,"layers_block_type":["mamba","moe","attention","x"])",
                      "must have M, *, - or E");
}

TEST(ModelConfigTest, ReadsTheExpertsOfLfm2) {
  const std::string lfm2 = R"("model_type":"lfm2_moe","num_experts":4,"num_experts_per_tok":2,
      "moe_intermediate_size":32,"layer_types":["conv","full_attention","conv","conv"],)";
  const auto config = ReadFolder(lfm2 + R"("num_dense_layers":1)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->feed_forward, 96);
  EXPECT_EQ(config->router_score, RouterScore::kSigmoid);
  EXPECT_TRUE(config->router_bias);
  EXPECT_FALSE(config->has_experts(0));
  EXPECT_TRUE(config->has_experts(1));
  EXPECT_FALSE(ReadFolder(lfm2 + R"("use_expert_bias":false)")->router_bias);
  ExpectFolderRefused(lfm2 + R"("num_dense_layers":4)", "num_dense_layers");
  ExpectFolderRefused(lfm2 + R"("num_dense_layers":1,"conv_L_cache":9)", "2 to 4 tokens");
}

TEST(ModelConfigTest, ReadsQwen35WithRotationByParts) {
  const std::string heads = R"(,"head_dim":32,"linear_num_key_heads":2,"linear_key_head_dim":16,
      "linear_num_value_heads":4,"linear_value_head_dim":32)";
  const std::string qwen = R"("model_type":"qwen3_5_text")" + heads;
  const auto config = ReadFolder(qwen + R"(,"rope_parameters":{"rope_type":"default",
      "rope_theta":1e7,"partial_rotary_factor":0.5,"mrope_section":[3,3,2],
      "mrope_interleaved":true})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrence, Recurrence::kDeltaNet);
  EXPECT_EQ(config->rope_dims, 16);
  EXPECT_EQ(config->rope_freq_base, 1e7);
  ExpectFolderRefused(qwen + R"(,"num_experts":4,"rope_parameters":{"rope_sections":[3,3,2]})",
                      "rope_sections");
  const std::string mixture = R"("model_type":"qwen3_5_moe_text")" + heads;
  ExpectFolderRefused(mixture + R"(,"num_experts":0)", "num_experts");
  ExpectFolderRefused(mixture + R"(,"num_experts":4,"num_experts_per_tok":2,
      "moe_intermediate_size":32,"shared_expert_intermediate_size":0)",
                      "shared_expert_intermediate_size");
}

TEST(ModelConfigTest, ReadsTheLayersOfLfm2FromKvHeads) {
  const auto read = [](const std::vector<int32_t>& kv_heads) {
    gguf::testing::Bytes list;
    for (const int32_t heads : kv_heads) gguf::testing::Append(&list, heads);
    Writer writer;
    writer.String("general.architecture", "lfm2")
        .U32("lfm2.block_count", 2)
        .U32("lfm2.context_length", 64)
        .U32("lfm2.embedding_length", 32)
        .U32("lfm2.feed_forward_length", 32)
        .U32("lfm2.attention.head_count", 2)
        .U32("lfm2.shortconv.l_cache", 3)
        .F32("lfm2.attention.layer_norm_rms_epsilon", 1e-5F)
        .RawArray("lfm2.attention.head_count_kv", static_cast<uint32_t>(gguf::ValueType::kInt32),
                  kv_heads.size(), list)
        .Tensor("token_embd.weight", tensor::DType::kF32, {32, 40}, std::vector<float>(32 * 40));
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    CHECK(file.ok()) << file.status();
    return ReadModelConfig(**file);
  };
  const auto config = read({0, 1});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrent, (std::vector<bool>{true, false}));
  EXPECT_EQ(config->kv_heads, 1);
  const auto attentive = read({1, 1});
  ASSERT_TRUE(attentive.ok()) << attentive.status();
  EXPECT_EQ(attentive->recurrence, Recurrence::kNone);
  const auto refused = [&](const std::vector<int32_t>& kv_heads) {
    const auto bad = read(kv_heads);
    return bad.ok() ? "" : bad.status().message();
  };
  EXPECT_THAT(refused({0, 1, 0}), HasSubstr("2 numbers, one for each layer"));
  EXPECT_THAT(refused({0, 0}), HasSubstr("a number above 0"));
  EXPECT_THAT(refused({1, 2}), HasSubstr("one number from 1 to"));
  EXPECT_THAT(refused({0, -1}), HasSubstr("one number from 1 to"));
}

}  // namespace
}  // namespace tutti::model
