// Configurations of families without recurrences, but for Gemma 3n and 4.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "kernels/rows_rope.h"
#include "model/testing/config_reading.h"

namespace tutti::model {
namespace {

using gguf::testing::Writer;
using testing::ExpectFolderRefused;
using ::testing::HasSubstr;
using testing::ReadFolder;

TEST(ModelConfigTest, ReadsWhichLayersOfSmolLm3Rotate) {
  const std::string smollm3 = R"("model_type":"smollm3")";
  using Flags = std::vector<bool>;
  EXPECT_EQ(ReadFolder(smollm3)->unrotated, (Flags{false, false, false, true}));
  EXPECT_EQ(ReadFolder(smollm3 + R"(,"no_rope_layer_interval":2)")->unrotated,
            (Flags{false, true, false, true}));
  EXPECT_EQ(ReadFolder(smollm3 + R"(,"no_rope_layers":[0,1,1,1,0])")->unrotated,
            (Flags{true, false, false, false}));
  const auto refused = [&](const std::string& key, const std::string& part) {
    ExpectFolderRefused(smollm3 + "," + key, part);
  };
  refused(R"("no_rope_layers":[1,0,1])", "no_rope_layers must be a list of 4 flags");
  refused(R"("no_rope_layers":[1,0,2,1])", "no_rope_layers is 2 for layer 2");
  refused(R"("no_rope_layer_interval":0)", "no_rope_layer_interval");
  refused(R"("use_sliding_window":true,"sliding_window":16)", "use_sliding_window");
}

TEST(ModelConfigTest, ReadsBiasesOfSeedOssApart) {
  const std::string seed = R"("model_type":"seed_oss","head_dim":16)";
  EXPECT_TRUE(ReadFolder(seed)->qkv_bias) << "the default of the class";
  EXPECT_FALSE(ReadFolder(seed)->output_bias);
  const auto output = ReadFolder(seed + R"(,"attention_bias":false,"attention_out_bias":true)");
  EXPECT_FALSE(output->qkv_bias);
  EXPECT_TRUE(output->output_bias);
  ExpectFolderRefused(seed + R"(,"mlp_bias":true)", "mlp_bias");
}

TEST(ModelConfigTest, ReadsErnie45WithAdjacentRotation) {
  const std::string ernie = R"("model_type":"ernie4_5","head_dim":16)";
  EXPECT_EQ(ReadFolder(ernie)->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(ReadFolder(ernie)->rope_freq_base, 5e5);
  ExpectFolderRefused(ernie + R"(,"use_bias":true)", "use_bias");
}

TEST(ModelConfigTest, ReadsKindsOfLayersOfOlmo3) {
  const std::string olmo3 = R"("model_type":"olmo3","rope_theta":5e5)";
  const auto listed = ReadFolder(olmo3 + R"(,"sliding_window":16,"layer_types":[
      "full_attention","sliding_attention","full_attention","sliding_attention"])");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->window, 16);
  EXPECT_EQ(listed->windowed, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(listed->rope_window_freq_base, 5e5);
  const auto absent = ReadFolder(olmo3);
  ASSERT_TRUE(absent.ok()) << absent.status();
  EXPECT_EQ(absent->window, 128) << "the window of the class, cut to the context";
  EXPECT_EQ(absent->windowed, (std::vector<bool>{true, true, true, false}));
  ExpectFolderRefused(olmo3 + R"(,"sliding_window":null,"layer_types":[
      "full_attention","sliding_attention","full_attention","full_attention"])",
                      "layer_types names layers with a window, but there is no sliding_window");
}

TEST(ModelConfigTest, ReadsRotationOfExaone4FromItsWindows) {
  const std::string exaone = R"("model_type":"exaone4",)";
  using Flags = std::vector<bool>;
  const auto hybrid = ReadFolder(exaone + R"("sliding_window":16,"sliding_window_pattern":2)");
  ASSERT_TRUE(hybrid.ok()) << hybrid.status();
  EXPECT_EQ(hybrid->windowed, (Flags{true, false, true, false}));
  EXPECT_EQ(hybrid->unrotated, (Flags{false, true, false, true}));
  const auto published = ReadFolder(exaone + R"("sliding_window_pattern":"LLLG","layer_types":[
      "sliding_attention","sliding_attention","sliding_attention","full_attention"])");
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->unrotated, (Flags{false, false, false, true}));
  const auto full = ReadFolder(exaone + R"("sliding_window":null,"sliding_window_pattern":null)");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->window, 0);
  EXPECT_TRUE(full->rotates(3));
  ExpectFolderRefused(exaone + R"("sliding_window_pattern":"LLLG")", "sliding_window_pattern");
}

TEST(ModelConfigTest, ReadsTheFirstGemma) {
  const std::string gemma = R"("model_type":"gemma","head_dim":16)";
  const auto config = ReadFolder(gemma);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->gate, GateKind::kGeluTanh);
  EXPECT_EQ(config->embedding_scale, 8.0);
  EXPECT_TRUE(config->tied_head);
  EXPECT_TRUE(
      ReadFolder(gemma + R"(,"hidden_act":"gelu","hidden_activation":"gelu_pytorch_tanh")").ok());
  ExpectFolderRefused(gemma + R"(,"hidden_act":"gelu")", "hidden_act is \"gelu\"");
  ExpectFolderRefused(gemma + R"(,"use_bidirectional_attention":true)",
                      "use_bidirectional_attention");
}

// The keys of DeepSeek V2 Lite and of Moonlight, but for a smaller width.
TEST(ModelConfigTest, ReadsTheHeadsAndScoresOfDeepseek) {
  const std::string heads = R"(,"num_key_value_heads":4,"q_lora_rank":null,"kv_lora_rank":512,
      "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"moe_intermediate_size":1408,
      "num_experts_per_tok":6,"n_routed_experts":64,"n_shared_experts":2,"n_group":1,
      "topk_group":1,"first_k_dense_replace":1,"ep_size":1,"moe_layer_freq":1,"seq_aux":true,
      "num_nextn_predict_layers":0)";
  const auto lite = ReadFolder(R"("model_type":"deepseek_v2","scoring_func":"softmax",
      "topk_method":"greedy","norm_topk_prob":false,"rope_scaling":{"beta_fast":32,"beta_slow":1,
      "factor":40,"mscale":0.707,"mscale_all_dim":0.707,"original_max_position_embeddings":4096,
      "type":"yarn"})" + heads);
  ASSERT_TRUE(lite.ok()) << lite.status();
  EXPECT_EQ(lite->head_dim, 192);
  EXPECT_EQ(lite->kv_heads, 4);
  EXPECT_EQ(lite->attended_rows(), 4 * 128);
  EXPECT_EQ(lite->rope_dims, 64);
  EXPECT_EQ(lite->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(lite->latent_rank, 512);
  EXPECT_EQ(lite->query_rank, 0);
  EXPECT_EQ(lite->rope_magnitude, 1);
  EXPECT_NEAR(lite->attention_shape().scale, 0.1147213867929261, 1e-7);
  EXPECT_EQ(lite->shared_feed_forward, 2816);
  EXPECT_EQ(lite->without_experts, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(lite->expert_groups, 1);
  EXPECT_FALSE(lite->expert_weights_sum_to_1);
  EXPECT_EQ(lite->router_score, RouterScore::kSoftmax);

  const auto moonlight = ReadFolder(R"("model_type":"deepseek_v3","scoring_func":"sigmoid",
      "topk_method":"noaux_tc","norm_topk_prob":true,"rope_scaling":null,"rope_theta":50000.0,
      "routed_scaling_factor":2.446)" +
                                    heads);
  ASSERT_TRUE(moonlight.ok()) << moonlight.status();
  EXPECT_NEAR(moonlight->attention_shape().scale, 1 / std::sqrt(192.0), 1e-7);
  EXPECT_EQ(moonlight->latent_norm_eps, 1e-6F) << "the class has it, whatever the config states";
  EXPECT_EQ(moonlight->norm_eps, 1e-5F);
  EXPECT_EQ(moonlight->router_score, RouterScore::kSigmoid);
  EXPECT_TRUE(moonlight->router_bias);
  EXPECT_TRUE(moonlight->expert_weights_sum_to_1);
  EXPECT_EQ(moonlight->expert_weights_scale, 2.446F);
}

TEST(ModelConfigTest, RefusesXieluWithoutItsParameters) {
  // As published.
  const auto missing = ReadFolder(R"("model_type":"apertus","qk_norm":true,"post_norm":false)");
  EXPECT_EQ(missing.status().reason(), "model_tensor_missing");
  EXPECT_THAT(missing.status().message(), HasSubstr("blk.0.xielu.alpha_p"));
  ExpectFolderRefused(R"("model_type":"apertus","hidden_act":"silu")", "hidden_act");
  const auto read = [](std::vector<float> eps, float alpha) {
    Writer writer;
    writer.String("general.architecture", "apertus");
    for (const char* key : {"block_count", "attention.head_count"})
      writer.U32(fmt::format("apertus.{}", key), 2);
    for (const char* key : {"context_length", "embedding_length", "feed_forward_length"})
      writer.U32(fmt::format("apertus.{}", key), 32);
    writer.F32("apertus.attention.layer_norm_rms_epsilon", 1e-5F);
    writer.F32("xielu.alpha_p", alpha).F32("xielu.alpha_n", alpha).F32("xielu.beta", 0.5F);
    writer.Floats("xielu.eps", eps);
    writer.Tensor("token_embd.weight", tensor::DType::kF32, {32, 1}, std::vector<float>(32));
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    CHECK(file.ok()) << file.status();
    return ReadModelConfig(**file);
  };
  const auto sound = read({-1e-6F, -1e-3F}, 0.25F);
  ASSERT_TRUE(sound.ok()) << sound.status();
  ASSERT_EQ(sound->xielu.size(), 2U);
  EXPECT_EQ(sound->xielu[1].epsilon, -1e-3F);
  EXPECT_EQ(sound->xielu[1].alpha_negative, 0.25F);
  EXPECT_THAT(read({-1e-6F}, 0).status().message(), HasSubstr("for each of 2 layers"));
  EXPECT_THAT(read({-1e-6F, 0}, 0).status().message(), HasSubstr("eps of layer 1 is 0"));
  EXPECT_THAT(read({-1e-6F, -1e-6F}, NAN).status().message(), HasSubstr("xielu.alpha_p"));
}

TEST(ModelConfigTest, ReadsTheGrowthOfMinistral3) {
  const std::string scaling = R"("model_type":"ministral3","rope_parameters":{"rope_type":"yarn",
      "factor":4.0,"original_max_position_embeddings":32,"rope_theta":1e6)";
  const auto config = ReadFolder(scaling + R"(,"llama_4_scaling_beta":0.1,"mscale":1.0,
      "mscale_all_dim":1.0})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->query_growth, 0.1);
  EXPECT_EQ(config->query_period, 32);
  EXPECT_EQ(config->rope_magnitude, 1.0);
  EXPECT_NEAR(ReadFolder(scaling + "}")->rope_magnitude, 1 + 0.1 * std::log(4.0), 1e-9);
  EXPECT_EQ(ReadFolder(scaling + "}")->query_growth, 0);
  ExpectFolderRefused(scaling + R"(,"llama_4_scaling_beta":-1})", "llama_4_scaling_beta");
  ExpectFolderRefused(scaling + R"(,"llama_4_scaling":1})", "llama_4_scaling");
}

// The keys of Scout, Maverick and MobileLLM-R1, but for smaller sizes.
TEST(ModelConfigTest, ReadsTheLayersOfLlama4) {
  using Flags = std::vector<bool>;
  const std::string llama4 = R"("model_type":"llama4_text","head_dim":16,
      "intermediate_size_mlp":128,"for_llm_compressor":false)";
  const auto scout = ReadFolder(llama4 + R"(,"num_local_experts":4,"attention_chunk_size":32,
      "attn_temperature_tuning":4,"no_rope_layers":[],"interleave_moe_layer_step":1,
      "rope_scaling":{"rope_type":"llama3","factor":16.0,"low_freq_factor":1.0,
      "high_freq_factor":1.0,"original_max_position_embeddings":64})");
  ASSERT_TRUE(scout.ok()) << scout.status();
  EXPECT_EQ(scout->feed_forward, 128);
  EXPECT_EQ(scout->expert_feed_forward, 96);
  EXPECT_EQ(scout->shared_feed_forward, 96);
  EXPECT_EQ(scout->experts_used, 1) << "the default of the class";
  EXPECT_TRUE(scout->expert_weights_on_inputs);
  EXPECT_FALSE(scout->expert_weights_sum_to_1);
  EXPECT_EQ(scout->router_score, RouterScore::kSigmoid);
  EXPECT_TRUE(scout->without_experts.empty());
  EXPECT_EQ(scout->window, 32);
  EXPECT_TRUE(scout->window_aligned);
  EXPECT_EQ(scout->windowed, (Flags{true, true, true, false}));
  EXPECT_EQ(scout->unrotated, (Flags{false, false, false, true}));
  EXPECT_EQ(scout->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(scout->head_norm, HeadNorm::kUnweighted);
  EXPECT_TRUE(scout->norm_rotated);
  EXPECT_EQ(scout->query_growth, 0.1);
  EXPECT_EQ(scout->query_period, 8192);
  EXPECT_EQ(scout->query_offset, 1);
  EXPECT_TRUE(scout->growth_unrotated);
  ASSERT_EQ(scout->rope_freq_factors.size(), 8U);
  EXPECT_EQ(scout->rope_freq_factors.front(), 1.0F);
  EXPECT_EQ(scout->rope_freq_factors.back(), 16.0F) << "equal borders leave no ramp";

  const std::string maverick =
      llama4 + R"(,"use_qk_norm":false,"interleave_moe_layer_step":2,"num_local_experts":8)";
  const auto dense = ReadFolder(maverick);
  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_EQ(dense->without_experts, (Flags{true, false, true, false}));
  EXPECT_EQ(dense->head_norm, HeadNorm::kNone);
  EXPECT_EQ(dense->window, 128) << "the chunk of the class, cut to the context";
  EXPECT_EQ(ReadFolder(maverick + R"(,"moe_layers":[0])")->without_experts,
            (Flags{false, true, true, true}));
  const auto listed = ReadFolder(maverick + R"(,"attention_chunk_size":16,
      "layer_types":["full_attention","chunked_attention","full_attention","full_attention"],
      "no_rope_layers":[1,1,0,0])");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->windowed, (Flags{false, true, false, false}));
  EXPECT_EQ(listed->unrotated, (Flags{false, false, true, true}));

  const auto mobile = ReadFolder(llama4 + R"(,"num_local_experts":0,"num_experts_per_tok":0,
      "moe_layers":[],"interleave_moe_layer_step":0,"no_rope_layers":[1,1,1,1],
      "attention_chunk_size":null,"attn_temperature_tuning":false,"layer_types":
      ["full_attention","full_attention","full_attention","full_attention"])");
  ASSERT_TRUE(mobile.ok()) << mobile.status();
  EXPECT_EQ(mobile->experts, 0);
  EXPECT_EQ(mobile->window, 0);
  EXPECT_TRUE(mobile->rotates(3));
  EXPECT_EQ(mobile->query_growth, 0);
  EXPECT_EQ(mobile->head_norm, HeadNorm::kUnweighted);
}

TEST(ModelConfigTest, RefusesALlama4ThatContradictsItself) {
  for (const auto& [more, part] :
       {std::pair{R"("attention_chunk_size":0)", "attention_chunk_size must be a whole number"},
        {R"("attention_chunk_size":null)", "attention_chunk_size is missing"},
        {R"("attn_temperature_tuning":"on")", "attn_temperature_tuning"},
        {R"("attn_temperature_tuning":-1)", "attn_temperature_tuning"},
        {R"("floor_scale":0)", "floor_scale"},
        {R"("floor_scale":0.5)", "floor_scale"},
        {R"("attn_scale":-0.1)", "attn_scale"},
        {R"("layer_types":["chunked_attention"])", "layer_types must be a list of 4 kinds"},
        {R"("layer_types":["chunked_attention","full_attention","sliding_attention",
            "full_attention"])",
         "layer_types names \"sliding_attention\" for layer 2"},
        {R"("no_rope_layers":[1,1])", "no_rope_layers must be a list of 4 flags"},
        {R"("no_rope_layers":[1,1,2,1])", "no_rope_layers is 2 for layer 2"},
        {R"("no_rope_layer_interval":0)", "no_rope_layer_interval"},
        {R"("moe_layers":[4])", "moe_layers names layer 4; the last is 3"},
        {R"("moe_layers":2)", "moe_layers must be a list of layers"},
        {R"("interleave_moe_layer_step":0)", "interleave_moe_layer_step"},
        {R"("num_experts_per_tok":17)", "num_experts_per_tok"},
        {R"("num_local_experts":-1)", "num_local_experts"},
        {R"("use_qk_norm":1)", "use_qk_norm must be true or false"},
        {R"("hidden_act":"gelu")", "hidden_act"},
        {R"("attention_bias":true)", "attention_bias"},
        {R"("intermediate_size_mlp":100)", "intermediate_size_mlp is 100, not a multiple of 32"},
        {R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,
            "high_freq_factor":1})",
         "high_freq_factor 1 is below"}}) {
    ExpectFolderRefused(std::string(R"("model_type":"llama4_text","head_dim":16,)") + more, part);
  }
  ExpectFolderRefused(R"("model_type":"llama","attention_chunk_size":16)", "attention_chunk_size");
  ExpectFolderRefused(R"("model_type":"llama","intermediate_size_mlp":64)",
                      "intermediate_size_mlp");
}

TEST(ModelConfigTest, ReadsTheGateAndNormsOfBitNet) {
  const auto config = ReadFolder(R"("model_type":"bitnet")");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->inner_norms && config->gated);
  EXPECT_EQ(config->gate, GateKind::kRelu2) << "the default of the class";
  EXPECT_EQ(ReadFolder(R"("model_type":"bitnet","hidden_act":"silu")")->gate, GateKind::kSilu);
  ExpectFolderRefused(R"("model_type":"bitnet","hidden_act":"gelu")", "hidden_act is \"gelu\"");
  ExpectFolderRefused(R"("model_type":"bitnet","num_experts":4)", "num_experts");
}

TEST(ModelConfigTest, ReadsGlm4WithPartialAdjacentRotation) {
  const std::string glm4 = R"("model_type":"glm4","head_dim":32)";
  const auto config = ReadFolder(glm4);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(config->rope_dims, 16);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->output_bias);
  EXPECT_FALSE(ReadFolder(glm4 + R"(,"attention_bias":false)")->qkv_bias);
  ExpectFolderRefused(glm4 + R"(,"rope_parameters":{"mrope_section":[8,12,12]})", "mrope_section");
}

TEST(ModelConfigTest, ReadsCohereWithParallelParts) {
  const auto config = ReadFolder(R"("model_type":"cohere","logit_scale":0.25)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->layer_norm);
  EXPECT_FALSE(config->norm_bias);
  EXPECT_TRUE(config->parallel);
  EXPECT_EQ(config->logit_scale, 0.25);
  EXPECT_TRUE(config->tied_head);
  EXPECT_EQ(config->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(ReadFolder(R"("model_type":"cohere")")->logit_scale, 0.0625);
  ExpectFolderRefused(R"("model_type":"cohere","use_qk_norm":true)", "use_qk_norm");
  ExpectFolderRefused(R"("model_type":"cohere","logit_scale":0)", "logit_scale");
  ExpectFolderRefused(R"("model_type":"cohere","layer_norm_eps":-1)", "layer_norm_eps");
}

TEST(ModelConfigTest, RotatesWindowedLayersOfCohere2Alone) {
  const auto config = ReadFolder(R"("model_type":"cohere2","sliding_window":16)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->window, 16);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(config->has_window(i), i != 3);
    EXPECT_EQ(config->rotates(i), i != 3);
  }
  ExpectFolderRefused(R"("model_type":"cohere2","sliding_window":0)", "sliding_window");
  ExpectFolderRefused(R"("model_type":"cohere2","rotary_pct":0.5)", "rotary_pct");
}

TEST(ModelConfigTest, ReadsFeedForwardsWithoutAGate) {
  const auto arcee = ReadFolder(R"("model_type":"arcee","hidden_act":"relu2")");
  ASSERT_TRUE(arcee.ok()) << arcee.status();
  EXPECT_FALSE(arcee->gated);
  EXPECT_EQ(arcee->gate, GateKind::kRelu2);
  EXPECT_FALSE(arcee->layer_norm);
  ExpectFolderRefused(R"("model_type":"arcee","hidden_act":"silu")", "hidden_act");
  ExpectFolderRefused(R"("model_type":"arcee","mlp_bias":true)", "mlp_bias");

  const auto nemotron = ReadFolder(R"("model_type":"nemotron","norm_eps":1e-4)");
  ASSERT_TRUE(nemotron.ok()) << nemotron.status();
  EXPECT_FALSE(nemotron->gated);
  EXPECT_TRUE(nemotron->norm_bias);
  EXPECT_EQ(nemotron->norm_eps, 1e-4F);
  EXPECT_EQ(nemotron->rope_dims, 8);

  const auto starcoder = ReadFolder(R"("model_type":"starcoder2","sliding_window":16)");
  ASSERT_TRUE(starcoder.ok()) << starcoder.status();
  EXPECT_EQ(starcoder->gate, GateKind::kGeluTanh);
  EXPECT_TRUE(starcoder->ffn_bias && starcoder->qkv_bias && starcoder->output_bias);
  EXPECT_EQ(starcoder->window, 16);
  EXPECT_FALSE(ReadFolder(R"("model_type":"starcoder2","use_bias":false)")->ffn_bias);
  ExpectFolderRefused(R"("model_type":"starcoder2","hidden_act":"gelu")", "hidden_act");
}

TEST(ModelConfigTest, ReadsStableLmWithAndWithoutParallelParts) {
  const std::string stablelm = R"("model_type":"stablelm","partial_rotary_factor":0.5)";
  const auto config = ReadFolder(stablelm + R"(,"use_qkv_bias":true)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->parallel);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->output_bias);
  EXPECT_EQ(config->rope_dims, 8);
  EXPECT_TRUE(ReadFolder(stablelm + R"(,"use_parallel_residual":true)")->parallel);
  ExpectFolderRefused(stablelm + R"(,"qk_layernorm":true)", "qk_layernorm");
}

TEST(ModelConfigTest, ReadsTheBaseOfHunyuansRotation) {
  const std::string hunyuan = R"("model_type":"hunyuan_v1_dense","head_dim":32)";
  const auto config = ReadFolder(hunyuan + R"(,"use_qk_norm":true,"use_cla":false,"rope_theta":1e4,
                               "rope_scaling":{"type":"dynamic","alpha":1000.0,"factor":1.0})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_DOUBLE_EQ(config->rope_freq_base, 1e4 * std::pow(1000.0, 32.0 / 30.0));
  EXPECT_TRUE(config->norm_rotated);
  EXPECT_EQ(ReadFolder(hunyuan)->rope_freq_base, 1e4);
  ExpectFolderRefused(hunyuan + R"(,"use_qk_norm":false)", "use_qk_norm");
  ExpectFolderRefused(hunyuan + R"(,"use_cla":true)", "use_cla");
  ExpectFolderRefused(R"("model_type":"llama","rope_scaling":{"type":"dynamic","alpha":2.0})",
                      "rope_scaling.alpha");
}

}  // namespace
}  // namespace tutti::model
