// Qwen3-Next and Qwen 3.5: Gated DeltaNet in most layers; in the others attention whose outputs
// gates weigh, norms of each head, and a part of each head that rotates. Mixtures have a shared
// expert, as Qwen 2's. Qwen 3.5 differs in the names of tensors. It rotates by three positions of
// parts of pictures, which are all the token's own in a text.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kDeltaKeys[] = {"expert_count",    "expert_used_count",
                                           "ssm.conv_kernel", "ssm.state_size",
                                           "ssm.group_count", "ssm.time_step_rank"};
constexpr std::string_view kNextConfigKeys[] = {"decoder_sparse_step",
                                                "full_attention_interval",
                                                "layer_types",
                                                "linear_conv_kernel_dim",
                                                "linear_key_head_dim",
                                                "linear_num_key_heads",
                                                "linear_num_value_heads",
                                                "linear_value_head_dim",
                                                "mlp_only_layers",
                                                "moe_intermediate_size",
                                                "norm_topk_prob",
                                                "num_experts",
                                                "num_experts_per_tok",
                                                "shared_expert_intermediate_size"};
constexpr std::string_view kNextDefaults =
    R"({"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":48,
        "num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,
        "max_position_embeddings":32768,"rms_norm_eps":1e-6,"partial_rotary_factor":0.25,
        "linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_value_head_dim":128,
        "linear_num_key_heads":16,"linear_num_value_heads":32,"moe_intermediate_size":512,
        "shared_expert_intermediate_size":512,"num_experts_per_tok":10,"num_experts":512,
        "norm_topk_prob":true})";
constexpr RenamedTensor kNextTensors[] = {
    {"linear_attn.in_proj_qkvz.", "ssm_in."}, {"linear_attn.in_proj_ba.", "ssm_ba."},
    {"linear_attn.conv1d.", "ssm_conv1d."},   {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.A_log", "ssm_a"},           {"linear_attn.norm.", "ssm_norm."},
    {"linear_attn.out_proj.", "ssm_out."},    {"post_attention_layernorm.", "post_attention_norm."},
};

constexpr std::string_view kQwen35ConfigKeys[] = {
    "full_attention_interval",       "layer_types",
    "linear_conv_kernel_dim",        "linear_key_head_dim",
    "linear_num_key_heads",          "linear_num_value_heads",
    "linear_value_head_dim",         "mamba_ssm_dtype",
    "moe_intermediate_size",         "num_experts",
    "num_experts_per_tok",           "rope_parameters.mrope_interleaved",
    "rope_parameters.mrope_section", "rope_scaling.mrope_interleaved",
    "rope_scaling.mrope_section",    "shared_expert_intermediate_size"};
constexpr std::string_view kQwen35Defaults =
    R"({"hidden_size":4096,"intermediate_size":12288,"num_hidden_layers":32,
        "num_attention_heads":16,"num_key_value_heads":4,"head_dim":256,
        "max_position_embeddings":32768,"rms_norm_eps":1e-6,"partial_rotary_factor":0.25,
        "linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_value_head_dim":128,
        "linear_num_key_heads":16,"linear_num_value_heads":32})";
constexpr std::string_view kQwen35MoeDefaults =
    R"({"hidden_size":2048,"num_hidden_layers":40,"num_attention_heads":16,
        "num_key_value_heads":2,"head_dim":256,"max_position_embeddings":32768,
        "rms_norm_eps":1e-6,"partial_rotary_factor":0.25,"linear_conv_kernel_dim":4,
        "linear_key_head_dim":128,"linear_value_head_dim":128,"linear_num_key_heads":16,
        "linear_num_value_heads":32,"moe_intermediate_size":512,
        "shared_expert_intermediate_size":512,"num_experts_per_tok":8,"num_experts":256})";
constexpr RenamedTensor kQwen35Tensors[] = {
    {"linear_attn.in_proj_qkv.", "attn_qkv."},
    {"linear_attn.in_proj_z.", "attn_gate."},
    {"linear_attn.in_proj_b.", "ssm_beta."},
    {"linear_attn.in_proj_a.", "ssm_alpha."},
    {"linear_attn.conv1d.", "ssm_conv1d."},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.norm.", "ssm_norm."},
    {"linear_attn.out_proj.", "ssm_out."},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"post_attention_layernorm.", "post_attention_norm."},
};

Status ReadDeltaLayers(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kList = "attention.recurrent_layers";
  if (source.form == Form::kTransformers && source.keys.Has("layer_types")) {
    ASSIGN_OR_RETURN(config.recurrent, source.keys.Recurrent("linear_attention", config.layers));
  } else if (source.form == Form::kGguf && source.keys.Has(kList)) {
    ASSIGN_OR_RETURN(config.recurrent, source.keys.Flags(kList, config.layers));
  } else {
    ASSIGN_OR_RETURN(const int64_t every,
                     source.keys.IntOr("full_attention_interval", 4, 1, kMaxLayers));
    for (int i = 0; i < config.layers; ++i) config.recurrent.push_back((i + 1) % every != 0);
  }
  return OkStatus();
}

Status ReadDeltaHeads(const FamilySource& source, ModelConfig& config) {
  config.recurrence = Recurrence::kDeltaNet;
  RETURN_IF_ERROR(ReadStateHeads(source, config));
  if (source.form == Form::kGguf) return OkStatus();
  return ReadInt(source.keys, "linear_value_head_dim", 1, 1 << 12, &config.state_values);
}

Status ReadNextMixture(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(ReadExperts(source, config));
  if (config.experts == 0) return OkStatus();
  RETURN_IF_ERROR(ReadExpertWidth(source, config));
  RETURN_IF_ERROR(ReadInt(source.keys, "expert_shared_feed_forward_length", 1, kMaxFeedForward,
                          &config.shared_feed_forward));
  config.shared_gate = true;
  RETURN_IF_ERROR(ReadLayersWithoutExperts(source, config));
  ASSIGN_OR_RETURN(config.expert_weights_sum_to_1, source.keys.BoolOr("expert_weights_norm", true));
  return OkStatus();
}

Status DescribeQwen3Next(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.head_norm = HeadNorm::kPerHead;
  config.attention_gate = true;
  config.ffn_norm = "post_attention_norm";
  RETURN_IF_ERROR(ReadDeltaLayers(source, config));
  if (config.recurrent_layers() != 0) RETURN_IF_ERROR(ReadDeltaHeads(source, config));
  return ReadNextMixture(source, config);
}

// A GGUF of it has the value heads in another order: head h is of group h % groups.
Status DescribeQwen35(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(DescribeQwen3Next(source, config));
  config.tiled_heads = source.form == Form::kGguf;
  return OkStatus();
}

Status DescribeQwen35Moe(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(DescribeQwen35(source, config));
  if (config.experts != 0) return OkStatus();
  return RefuseParameter("{} is missing", source.keys.Spelled("expert_count"));
}

}  // namespace

const Family kQwen3Next = {.architecture = "qwen3next",
                           .model_type = "qwen3_next",
                           .keys = kDeltaKeys,
                           .config_keys = kNextConfigKeys,
                           .config_defaults = kNextDefaults,
                           .rope_partial = true,
                           .tensors = kNextTensors,
                           .expert_width_key = true,
                           .state_keys = std::span(kDeltaKeys).subspan(2),
                           .norms_less_one = true,
                           .recurrent_interval = true,
                           .describe = &DescribeQwen3Next};
const Family kQwen35 = {.architecture = "qwen35",
                        .model_type = "qwen3_5_text",
                        .keys = kDeltaKeys,
                        .config_keys = kQwen35ConfigKeys,
                        .config_defaults = kQwen35Defaults,
                        .rope_partial = true,
                        .tensors = kQwen35Tensors,
                        .state_keys = std::span(kDeltaKeys).subspan(2),
                        .norms_less_one = true,
                        .recurrent_interval = true,
                        .gguf_tiled_heads = true,
                        .describe = &DescribeQwen35};
const Family kQwen35Moe = {.architecture = "qwen35moe",
                           .model_type = "qwen3_5_moe_text",
                           .keys = kDeltaKeys,
                           .config_keys = kQwen35ConfigKeys,
                           .config_defaults = kQwen35MoeDefaults,
                           .rope_partial = true,
                           .tensors = kQwen35Tensors,
                           .expert_width_key = true,
                           .state_keys = std::span(kDeltaKeys).subspan(2),
                           .norms_less_one = true,
                           .recurrent_interval = true,
                           .gguf_tiled_heads = true,
                           .describe = &DescribeQwen35Moe};

}  // namespace tutti::model
