// Small decoders whose files contradict each other are refused by name (decoder_families.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "decoder_families.h"

namespace tutti::parity {
namespace {

using model::WeightMode;

TEST(DecoderFamiliesTest, AGptOssThatContradictsItsConfigIsRefused) {
  const FamilyGolden& golden = GoldenOf("gpt_oss");
  for (const Contradiction& each :
       {Contradiction{"num_local_experts", 5, "st_shape", "experts.gate_up_proj"},
        {"num_local_experts", nullptr, "model_hparam", "num_local_experts"},
        {"num_experts_per_tok", 7, "model_hparam", "num_experts_per_tok"},
        {"intermediate_size", 64, "st_shape", "experts.gate_up_proj"},
        {"head_dim", 16, "st_shape", "self_attn.q_proj.weight"},
        {"num_attention_heads", 2, "st_shape", "self_attn.q_proj.weight"},
        {"attention_bias", false, "model_hparam", "attn_"},
        {"sliding_window", 0, "model_hparam", "layer_types"},
        {"swiglu_limit", 5.5, "model_hparam", "swiglu_limit"},
        {"swiglu_alpha", 1.5, "model_hparam", "swiglu_alpha"},
        {"rope_scaling", nullptr, "model_hparam", "rope_scaling.rope_type is missing"},
        {"hidden_act", "gelu", "model_hparam", "hidden_act"}}) {
    FamilyGolden changed = golden;
    changed.entry.at("config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ExpectRefused(weights.status(), each.key, each.reason, each.part);
  }
  // A sink too few, and a bias of experts that is missing.
  for (const std::string_view name :
       {"model.layers.1.self_attn.sinks", "model.layers.2.mlp.experts.down_proj_bias"}) {
    FamilyGolden changed = golden;
    boost::json::object& tensors = changed.entry.at("tensors").as_object();
    const bool sinks = name.ends_with("sinks");
    if (sinks) {
      tensors[name] = boost::json::array{3};
    } else {
      tensors.erase(name);
    }
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ASSERT_FALSE(weights.ok()) << name;
    EXPECT_EQ(weights.status().reason(), sinks ? "st_shape" : "model_tensor_missing");
    EXPECT_NE(weights.status().message().find(sinks ? name : "blk.2.ffn_down.0.bias"),
              std::string::npos)
        << weights.status();
  }
}

TEST(DecoderFamiliesTest, ADeepseekThatContradictsItsConfigIsRefused) {
  for (const Contradiction& each :
       {Contradiction{"kv_lora_rank", 32, "st_shape", "kv_a_proj_with_mqa.weight"},
        {"kv_lora_rank", 40, "model_hparam", "kv_lora_rank is 40, not a multiple of 32"},
        {"kv_lora_rank", nullptr, "model_hparam", "kv_lora_rank is missing"},
        {"q_lora_rank", 64, "st_shape", "q_a_proj.weight"},
        {"q_lora_rank", 48, "model_hparam", "q_lora_rank is 48, not a multiple of 32"},
        {"q_lora_rank", nullptr, "model_tensor_missing", "attn_q.weight"},
        {"qk_rope_head_dim", 16, "st_shape", "self_attn.kv_a_proj_with_mqa.weight"},
        {"qk_rope_head_dim", 31, "model_hparam", "x 63 dimensions is 252, not a multiple of 32"},
        {"qk_rope_head_dim", 0, "model_hparam", "qk_rope_head_dim"},
        {"qk_nope_head_dim", 16, "st_shape", "kv_b_proj.weight"},
        {"qk_nope_head_dim", 40, "model_hparam", "head dimension is not a multiple of 16"},
        {"qk_nope_head_dim", 512, "model_hparam", "head dimension is not a multiple of 16"},
        {"v_head_dim", 64, "st_shape", "kv_b_proj.weight"},
        {"v_head_dim", 80, "model_hparam", "v_head_dim is 80, above"},
        {"v_head_dim", 20, "model_hparam", "v_head_dim is 80, not a multiple of 32"},
        {"num_attention_heads", 8, "model_hparam", "num_key_value_heads is 4"},
        {"num_key_value_heads", 2, "model_hparam", "num_key_value_heads is 2"},
        {"n_group", 3, "model_hparam", "8 experts do not divide into n_group 3"},
        {"n_group", 8, "model_hparam", "n_group 8 of two or more"},
        {"topk_group", 5, "model_hparam", "topk_group"},
        {"topk_group", nullptr, "model_hparam", "topk_group"},
        {"num_experts_per_tok", 5, "model_hparam", "topk_group 2 of 2 experts have fewer"},
        {"n_routed_experts", nullptr, "model_hparam", "is missing"},
        {"moe_intermediate_size", 64, "st_shape", "experts.0.gate_proj.weight"},
        {"n_shared_experts", 2, "st_shape", "shared_experts.gate_proj.weight"},
        {"first_k_dense_replace", 0, "model_tensor_missing", "blk.0.ffn_gate_inp.weight"},
        {"first_k_dense_replace", 3, "model_hparam", "first_k_dense_replace"},
        {"rope_interleave", false, "model_hparam", "rope_interleave is false"},
        {"scoring_func", "softmax", "model_hparam", "scoring_func"},
        {"topk_method", "greedy", "model_hparam", "topk_method"},
        {"attention_bias", true, "model_hparam", "attention_bias"},
        {"hidden_act", "gelu", "model_hparam", "hidden_act"}}) {
    FamilyGolden changed = GoldenOf("deepseek_v3");
    changed.entry.at("config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ExpectRefused(weights.status(), each.key, each.reason, each.part);
  }
  for (const Contradiction& each :
       {Contradiction{"norm_topk_prob", true, "model_hparam", "norm_topk_prob is true"},
        {"scoring_func", "sigmoid", "model_hparam", "scoring_func"},
        {"topk_method", "noaux_tc", "model_hparam", "topk_method"}}) {
    FamilyGolden changed = GoldenOf("deepseek_v2");
    changed.entry.at("config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ExpectRefused(weights.status(), each.key, each.reason, each.part);
  }
}

TEST(DecoderFamiliesTest, ADeepseekGgufThatContradictsItsKeysIsRefused) {
  for (const Contradiction& each :
       {Contradiction{"attention.head_count_kv", 2, "model_hparam", "2 kv heads of 96 and 64"},
        {"attention.key_length", 64, "model_hparam", "kv heads of 64 and 64 do not fit"},
        {"attention.value_length", 48, "model_hparam", "1 kv heads of 96 and 48"},
        {"attention.key_length_mla", 32, "model_hparam", "rope.dimension_count is 32, not below"},
        {"attention.key_length_mla", 80, "gguf_shape", "attn_k_b.weight"},
        {"attention.value_length_mla", 128, "model_hparam", "value_length_mla is 128, above"},
        {"attention.value_length_mla", 16, "gguf_shape", "attn_v_b.weight"},
        {"attention.kv_lora_rank", 96, "model_hparam", "do not fit a latent row of 96"},
        {"attention.q_lora_rank", 0, "model_hparam", "attention.q_lora_rank"},
        {"attention.temperature_scale", 0.1, "model_hparam", "temperature_scale is not supported"},
        {"expert_group_count", 3, "model_hparam", "8 experts do not divide"},
        {"expert_gating_func", 3, "model_hparam", "expert_gating_func"}}) {
    for (const tensor::DType type : {tensor::DType::kF32, tensor::DType::kQ8_0}) {
      FamilyGolden changed = GoldenOf("deepseek_v3");
      changed.entry.at("keys").as_object()[each.key] = each.value;
      const auto weights = LoadGguf(changed, WeightMode::kF32, type);
      ExpectRefused(weights.status(), each.key, each.reason, each.part);
    }
  }
}

TEST(DecoderFamiliesTest, ALlama4ThatContradictsItsTensorsIsRefused) {
  struct Case {
    std::string_view family, key;
    boost::json::value value;
    std::string_view reason, part;
  };
  constexpr std::string_view kMixed = "llama4", kDense = "llama4 with layers without experts";
  for (const Case& each :
       {Case{kMixed, "num_local_experts", 5, "st_shape", "experts.gate_up_proj"},
        {kMixed, "intermediate_size", 64, "st_shape", "experts.gate_up_proj"},
        {kMixed, "moe_layers", {0, 1, 2, 3}, "st_shape", "layers.4.feed_forward.experts.down_proj"},
        {kMixed, "head_dim", 16, "st_shape", "self_attn.q_proj.weight"},
        {kDense, "intermediate_size_mlp", 128, "st_shape", "feed_forward.gate_proj.weight"},
        {kDense, "moe_layers", {0, 1, 3}, "model_tensor_missing", "blk.0.ffn_gate_inp.weight"},
        {kDense, "num_key_value_heads", 2, "st_shape", "self_attn.k_proj.weight"},
        {kDense, "moe_layers", boost::json::array(), "st_shape", "layers.1.feed_forward.experts"},
        {"llama4 without experts", "num_local_experts", 2, "model_hparam",
         "num_experts_per_tok"}}) {
    FamilyGolden changed = GoldenOf(each.family);
    changed.entry.at("config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ExpectRefused(weights.status(), each.key, each.reason, each.part);
  }
  for (const Case& each :
       {Case{kDense, "attention.sliding_window", 1 << 25, "model_hparam", "sliding_window"},
        {kDense, "rope.layers", {true, false}, "model_hparam", "rope.layers"},
        {kDense,
         "attention.sliding_window_pattern",
         {true, true},
         "model_hparam",
         "window_pattern"},
        {kDense, "attention.qk_norm", 1, "model_hparam", "qk_norm"},
        {kDense, "feed_forward_length", 128, "gguf_shape", "ffn_gate.weight"},
        {kMixed, "attention.chunk_size", 1 << 25, "model_hparam", "chunk_size"},
        {kMixed, "attention.temperature_length", 0, "model_hparam", "temperature_length"},
        {kMixed, "attention.temperature_scale", -0.5, "model_hparam", "temperature_scale"},
        {kMixed, "expert_feed_forward_length", 64, "gguf_shape", "ffn_gate_exps.weight"},
        {kMixed, "expert_used_count", 5, "model_hparam", "expert_used_count"}}) {
    FamilyGolden changed = GoldenOf(each.family);
    changed.entry.at("keys").as_object()[each.key] = each.value;
    const auto weights = LoadGguf(changed, WeightMode::kF32);
    ExpectRefused(weights.status(), each.key, each.reason, each.part);
  }
}

TEST(DecoderFamiliesTest, AGemma4ThatContradictsItsTensorsIsRefused) {
  struct Case {
    std::string_view family, key;
    boost::json::value value;
    std::string_view reason, part;
  };
  const boost::json::value wide = {{"head_dim", 32}, {"num_key_value_heads", 1}};
  for (const Case& each :
       {Case{"gemma4 with larger heads", "head_dim", 16, "st_shape", "q_proj"},
        Case{"gemma4 with larger heads",
             "per_layer_config",
             {{"0", wide}, {"3", wide}},
             "st_shape",
             "q_proj"},
        Case{"gemma4 with larger heads", "attention_k_eq_v", false, "model_tensor_missing",
             "attn_v"},
        Case{"gemma4", "attention_k_eq_v", true, "model_hparam", "attn_v"},
        Case{"gemma4 with shared keys", "num_kv_shared_layers", 1, "model_tensor_missing",
             "attn_k"},
        Case{"gemma4 with shared keys", "use_double_wide_mlp", false, "st_shape", "mlp"},
        Case{"gemma4 with shared keys", "hidden_size_per_layer_input", 64, "st_shape", "per_layer"},
        Case{"gemma4 with shared keys", "hidden_size_per_layer_input", 0, "model_hparam", "layer"},
        Case{"gemma4 with experts", "num_experts", 5, "st_shape", "experts.gate_up_proj"},
        Case{"gemma4 with experts", "enable_moe_block", false, "st_shape", "experts"}}) {
    FamilyGolden changed = GoldenOf(each.family);
    changed.entry.at("config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ExpectRefused(weights.status(), each.key, each.reason, each.part);
  }
}

TEST(DecoderFamiliesTest, AGemma3nThatContradictsItsTensorsIsRefused) {
  struct Case {
    std::string key;
    boost::json::value value;
    std::string_view reason, part;
  };
  using Shape = boost::json::array;
  const std::string layer = "model.language_model.layers.1.";
  for (const Case& each : {
           Case{"altup_num_inputs", 3, "st_shape", "modality_router"},
           Case{"altup_num_inputs", 5, "model_tensor_missing", "altup_proj.3"},
           Case{"laurel_rank", 64, "st_shape", "laurel.linear_left"},
           Case{"num_kv_shared_layers", 1, "model_tensor_missing", "attn_k"},
           Case{"hidden_size_per_layer_input", 64, "st_shape", "embed_tokens_per_layer"},
           Case{"vocab_size_per_layer_input", 79, "st_shape", "embed_tokens_per_layer"},
           Case{"intermediate_size", Shape{96, 96, 96, 64, 96, 96}, "st_shape", "mlp"},
           // Tensors of other shapes.
           Case{layer + "altup.prediction_coefs.weight", Shape{4, 4}, "st_shape",
                "prediction_coefs"},
           Case{layer + "altup.correction_coefs.weight", Shape{16, 4}, "st_shape",
                "correction_coefs"},
           Case{layer + "altup.correct_output_scale", Shape{32}, "st_shape",
                "correct_output_scale"},
           Case{layer + "laurel.linear_right.weight", Shape{32, 32}, "st_shape",
                "laurel.linear_right"},
           Case{"model.language_model.altup_projections.2.weight", Shape{64, 32}, "st_shape",
                "altup_projections.2"},
           Case{"model.language_model.altup_unembed_projections.0.weight", Shape{32, 64},
                "st_shape", "altup_unembed_projections.0"},
           Case{"model.language_model.altup_projections.3.weight", Shape{64, 64}, "model_hparam",
                "altup_proj.3"},
       }) {
    FamilyGolden changed = GoldenOf("gemma3n");
    if (each.key == "num_kv_shared_layers") {
      boost::json::object& tensors = changed.entry.at("tensors").as_object();
      for (const char* name : {"k_proj.weight", "v_proj.weight", "k_norm.weight"})
        tensors.erase(fmt::format("model.language_model.layers.4.self_attn.{}", name));
    }
    const bool tensor = each.key.starts_with("model.");
    changed.entry.at(tensor ? "tensors" : "config").as_object()[each.key] = each.value;
    const auto weights = LoadFolder(changed, WeightMode::kF32);
    ExpectRefused(weights.status(), each.key, each.reason, each.part);
  }
}

}  // namespace
}  // namespace tutti::parity
