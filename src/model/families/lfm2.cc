// LFM2: layers with a gated short convolution, and some with attention, whose queries and keys are
// normalised by head. The number of a folder's feed-forward rows is computed from other keys. Its
// mixture: a router of sigmoids, a bias for the choice of experts, one network in the first layers.
#include <algorithm>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kLfm2Keys[] = {"shortconv.l_cache"};
constexpr std::string_view kLfm2ConfigKeys[] = {
    "block_auto_adjust_ff_dim",
    "block_dim",
    "block_ff_dim",
    "block_ffn_dim_multiplier",
    "block_mlp_init_scale",
    "block_multiple_of",
    "block_norm_eps",
    "block_out_init_scale",
    "block_use_swiglu",
    "block_use_xavier_init",
    "conv_L_cache",
    "conv_bias",
    "conv_dim",
    "conv_dim_out",
    "conv_use_xavier_init",
    "full_attn_idxs",
    "layer_types",
    "norm_eps",
    "num_heads",
    "theta",
    "tie_embedding",
    "use_pos_enc",
};
constexpr std::string_view kLfm2Defaults =
    R"({"hidden_size":2560,"intermediate_size":12288,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":128000,
        "norm_eps":1e-5,"tie_word_embeddings":true,"rope_theta":1000000.0,"conv_L_cache":3,
        "block_multiple_of":256,"block_ffn_dim_multiplier":1.0,"block_auto_adjust_ff_dim":true})";
constexpr RenamedTensor kLfm2Tensors[] = {
    {"operator_norm.", "attn_norm."},           {"ffn_norm.", "ffn_norm."},
    {"feed_forward.w1.", "ffn_gate."},          {"feed_forward.w3.", "ffn_up."},
    {"feed_forward.w2.", "ffn_down."},          {"self_attn.out_proj.", "attn_output."},
    {"self_attn.q_layernorm.", "attn_q_norm."}, {"self_attn.k_layernorm.", "attn_k_norm."},
    {"conv.in_proj.", "shortconv.in_proj."},    {"conv.out_proj.", "shortconv.out_proj."},
    {"conv.conv.", "shortconv.conv."},
};

Status AdjustLfm2FeedForward(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool adjust, source.keys.BoolOr("block_auto_adjust_ff_dim", true));
  if (!adjust) return OkStatus();
  ASSIGN_OR_RETURN(const double factor,
                   source.keys.FloatOr("block_ffn_dim_multiplier", 1.0, 1e-3, 1e3));
  ASSIGN_OR_RETURN(const int64_t multiple,
                   source.keys.IntOr("block_multiple_of", 256, 1, kMaxFeedForward));
  const auto scaled =
      static_cast<int64_t>(factor * static_cast<double>(int64_t{2} * config.feed_forward / 3));
  const int64_t rows = (scaled + multiple - 1) / multiple * multiple;
  if (rows < 1 || rows > kMaxFeedForward)
    return RefuseParameter("a feed-forward of {} rows is outside 1..{}", rows, kMaxFeedForward);
  config.feed_forward = static_cast<int>(rows);
  return OkStatus();
}

Status DescribeLfm2(const FamilySource& source, ModelConfig& config) {
  config.head_norm = HeadNorm::kPerHead;
  config.recurrence = Recurrence::kShortConv;
  config.output_norm = "token_embd_norm";
  ASSIGN_OR_RETURN(config.recurrent, source.keys.Recurrent("conv", config.layers));
  RETURN_IF_ERROR(ReadInt(source.keys, "shortconv.l_cache", 2, 1 << 10, &config.conv_taps));
  if (source.form == Form::kTransformers) {
    RETURN_IF_ERROR(AdjustLfm2FeedForward(source, config));
    ASSIGN_OR_RETURN(config.conv_bias, source.keys.BoolOr("conv_bias", false));
  } else {
    const auto first = std::find(config.recurrent.begin(), config.recurrent.end(), true);
    config.conv_bias = source.store.Find(fmt::format("blk.{}.shortconv.conv.bias",
                                                     first - config.recurrent.begin())) != nullptr;
  }
  config.recurrent_bias = config.conv_bias;
  return OkStatus();
}

constexpr std::string_view kLfm2MoeKeys[] = {"shortconv.l_cache", "expert_count",
                                             "expert_used_count"};
constexpr std::string_view kLfm2MoeConfigKeys[] = {"conv_L_cache",          "conv_bias",
                                                   "full_attn_idxs",        "layer_types",
                                                   "moe_intermediate_size", "norm_eps",
                                                   "norm_topk_prob",        "num_dense_layers",
                                                   "num_experts",           "num_experts_per_tok",
                                                   "routed_scaling_factor", "theta",
                                                   "tie_embedding",         "use_expert_bias"};
constexpr std::string_view kLfm2MoeDefaults =
    R"({"hidden_size":2048,"intermediate_size":7168,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":128000,
        "norm_eps":1e-5,"tie_word_embeddings":true,"rope_theta":1000000.0,"conv_L_cache":3,
        "moe_intermediate_size":1792,"num_dense_layers":2,"num_experts_per_tok":4,
        "num_experts":32,"block_auto_adjust_ff_dim":false})";
constexpr RenamedTensor kLfm2MoeTensors[] = {
    {"operator_norm.", "attn_norm."},
    {"ffn_norm.", "ffn_norm."},
    {"feed_forward.w1.", "ffn_gate."},
    {"feed_forward.w3.", "ffn_up."},
    {"feed_forward.w2.", "ffn_down."},
    {"feed_forward.gate.", "ffn_gate_inp."},
    {"feed_forward.expert_bias", "exp_probs_b.bias"},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight"},
    {"self_attn.out_proj.", "attn_output."},
    {"self_attn.q_layernorm.", "attn_q_norm."},
    {"self_attn.k_layernorm.", "attn_k_norm."},
    {"conv.in_proj.", "shortconv.in_proj."},
    {"conv.out_proj.", "shortconv.out_proj."},
    {"conv.conv.", "shortconv.conv."},
};

Status DescribeLfm2Moe(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(DescribeLfm2(source, config));
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(ReadExpertWidth(source, config));
  RETURN_IF_ERROR(ReadLayersWithoutExperts(source, config));
  RETURN_IF_ERROR(ReadSigmoidRouter(source, config));
  ASSIGN_OR_RETURN(config.router_bias, keys.BoolOr("use_expert_bias", true));
  if (source.form == Form::kGguf) {
    const auto& without = config.without_experts;
    const auto first = std::find(without.begin(), without.end(), false) - without.begin();
    config.router_bias = source.store.Find(fmt::format("blk.{}.exp_probs_b.bias",
                                                       without.empty() ? 0 : first)) != nullptr;
  }
  return OkStatus();
}

}  // namespace

const Family kLfm2Moe = {.architecture = "lfm2moe",
                         .model_type = "lfm2_moe",
                         .keys = kLfm2MoeKeys,
                         .config_keys = kLfm2MoeConfigKeys,
                         .config_defaults = kLfm2MoeDefaults,
                         .tensors = kLfm2MoeTensors,
                         .expert_width_key = true,
                         .state_keys = std::span(kLfm2MoeKeys).first(1),
                         .kv_heads_by_layer = true,
                         .describe = DescribeLfm2Moe};
const Family kLfm2 = {.architecture = "lfm2",
                      .model_type = "lfm2",
                      .keys = kLfm2Keys,
                      .config_keys = kLfm2ConfigKeys,
                      .config_defaults = kLfm2Defaults,
                      .tensors = kLfm2Tensors,
                      .state_keys = kLfm2Keys,
                      .kv_heads_by_layer = true,
                      .describe = DescribeLfm2};

}  // namespace tutti::model
