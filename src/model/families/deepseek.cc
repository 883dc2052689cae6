// DeepSeek V2 and V3: latent attention, whose keys and values of all heads are products of one
// narrow row; a mixture with shared experts, groups of experts, and first layers without experts.
// V3's router takes sigmoids and has a bias for the choice. YaRN's factor of magnitude multiplies
// the scores too (config.cc). Adjacent dimensions rotate together in folders and GGUFs.
#include "base/quote.h"
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kDeepseekKeys[] = {"expert_count", "expert_used_count",
                                              "expert_shared_count"};
constexpr std::string_view kDeepseekConfigKeys[] = {"ep_size",
                                                    "first_k_dense_replace",
                                                    "kv_lora_rank",
                                                    "moe_intermediate_size",
                                                    "n_group",
                                                    "n_routed_experts",
                                                    "n_shared_experts",
                                                    "norm_topk_prob",
                                                    "q_lora_rank",
                                                    "num_experts_per_tok",
                                                    "qk_head_dim",
                                                    "qk_nope_head_dim",
                                                    "qk_rope_head_dim",
                                                    "rope_interleave",
                                                    "routed_scaling_factor",
                                                    "scoring_func",
                                                    "seq_aux",
                                                    "topk_group",
                                                    "topk_method",
                                                    "v_head_dim"};
constexpr std::string_view kDeepseekV2Defaults =
    R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
        "kv_lora_rank":512,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
        "v_head_dim":128,"n_routed_experts":64,"n_shared_experts":2,"moe_intermediate_size":1407})";
constexpr std::string_view kDeepseekV3Defaults =
    R"({"hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
        "num_attention_heads":128,"max_position_embeddings":4096,"rms_norm_eps":1e-6,
        "kv_lora_rank":512,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
        "v_head_dim":128,"n_routed_experts":256,"n_shared_experts":1,"moe_intermediate_size":2048,
        "num_experts_per_tok":8,"first_k_dense_replace":3,"n_group":8,"topk_group":4,
        "norm_topk_prob":true,"routed_scaling_factor":2.5})";
constexpr RenamedTensor kDeepseekTensors[] = {
    {"self_attn.q_a_proj.", "attn_q_a."},
    {"self_attn.q_a_layernorm.", "attn_q_a_norm."},
    {"self_attn.q_b_proj.", "attn_q_b."},
    {"self_attn.kv_a_proj_with_mqa.", "attn_kv_a_mqa."},
    {"self_attn.kv_a_layernorm.", "attn_kv_a_norm."},
    {"self_attn.kv_b_proj.", "attn_kv_b."},
};

Status RefuseUnless(const FamilySource& source, std::string_view key, std::string_view wanted) {
  ASSIGN_OR_RETURN(const std::string value, source.keys.StringOr(key, std::string(wanted)));
  if (value == wanted) return OkStatus();
  return RefuseParameter("{} is {}, which is not supported here ({} is)", source.keys.Spelled(key),
                         Quote(value), wanted);
}

// What both versions have. A folder's norms of latent rows have an epsilon of their own, which is
// that of their class. Converters write no key for it.
Status DescribeDeepseek(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  const double own = source.form == Form::kTransformers ? 1e-6 : double{config.norm_eps};
  ASSIGN_OR_RETURN(const double eps,
                   keys.FloatOr("attention.latent_norm_epsilon", own, 1e-12, 0.1));
  config.latent_norm_eps = static_cast<float>(eps);
  ASSIGN_OR_RETURN(const bool adjacent, keys.BoolOr("rope_interleave", true));
  if (!adjacent)
    return RefuseParameter("rope_interleave is false, which is not supported (true is)");
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(ReadExpertWidth(source, config));
  ASSIGN_OR_RETURN(const int64_t shared, keys.IntOr("expert_shared_count", 0, 0, 64));
  config.shared_feed_forward = static_cast<int>(shared) * config.expert_feed_forward;
  ASSIGN_OR_RETURN(const double scale, keys.FloatOr("expert_weights_scale", 1.0, 0, 1e3));
  if (scale != 0) config.expert_weights_scale = static_cast<float>(scale);  // a GGUF's 0: none
  ASSIGN_OR_RETURN(config.expert_weights_sum_to_1, keys.BoolOr("expert_weights_norm", false));
  return ReadLayersWithoutExperts(source, config);
}

// The published class scales weights only where they do not sum to 1, transformers' knows no such
// sum: models with it are not known.
Status DescribeDeepseekV2(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(source, "scoring_func", "softmax"));
  RETURN_IF_ERROR(DescribeDeepseek(source, config));
  if (config.expert_weights_sum_to_1)
    return RefuseParameter("norm_topk_prob is true, which is not supported here (false is)");
  ASSIGN_OR_RETURN(const std::string method, source.keys.StringOr("topk_method", "greedy"));
  if (method == "greedy") return OkStatus();
  RETURN_IF_ERROR(RefuseUnless(source, "topk_method", "group_limited_greedy"));
  return ReadExpertGroups(source, config);
}

Status DescribeDeepseekV3(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(source, "scoring_func", "sigmoid"));
  RETURN_IF_ERROR(RefuseUnless(source, "topk_method", "noaux_tc"));
  RETURN_IF_ERROR(DescribeDeepseek(source, config));
  config.router_score = RouterScore::kSigmoid;
  config.router_bias = config.groups_by_best_two = true;
  return ReadExpertGroups(source, config);
}

// A GGUF of either: expert_gating_func is 1 or absent for softmax, 2 for a sigmoid.
Status DescribeDeepseekGguf(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(DescribeDeepseek(source, config));
  ASSIGN_OR_RETURN(const int64_t score, source.keys.IntOr("expert_gating_func", 1, 1, 2));
  if (score == 2) config.router_score = RouterScore::kSigmoid;
  // Mistral Large 3 is of this architecture, with queries that grow with the position.
  constexpr std::string_view kGrowth = "attention.temperature_scale";
  if (source.keys.Has(kGrowth))
    return RefuseParameter("{} is not supported here", source.keys.Spelled(kGrowth));
  for (int i = 0; i < config.layers && !config.router_bias; ++i)
    config.router_bias = source.store.Find(fmt::format("blk.{}.exp_probs_b.bias", i)) != nullptr;
  config.groups_by_best_two = config.router_bias;
  return ReadExpertGroups(source, config);
}

Status DescribeV2OrGguf(const FamilySource& source, ModelConfig& config) {
  return source.form == Form::kGguf ? DescribeDeepseekGguf(source, config)
                                    : DescribeDeepseekV2(source, config);
}

}  // namespace

const Family kDeepseekV2 = {.architecture = "deepseek2",
                            .model_type = "deepseek_v2",
                            .gguf_rope = kernels::RopeMode::kAdjacent,
                            .folder_rope = kernels::RopeMode::kAdjacent,
                            .keys = kDeepseekKeys,
                            .config_keys = kDeepseekConfigKeys,
                            .config_defaults = kDeepseekV2Defaults,
                            .latent = true,
                            .tensors = kDeepseekTensors,
                            .expert_width_key = true,
                            .describe = &DescribeV2OrGguf};
const Family kDeepseekV3 = {.architecture = "deepseek2",
                            .model_type = "deepseek_v3",
                            .gguf_rope = kernels::RopeMode::kAdjacent,
                            .folder_rope = kernels::RopeMode::kAdjacent,
                            .keys = kDeepseekKeys,
                            .config_keys = kDeepseekConfigKeys,
                            .config_defaults = kDeepseekV3Defaults,
                            .latent = true,
                            .tensors = kDeepseekTensors,
                            .expert_width_key = true,
                            .describe = &DescribeDeepseekV3};

}  // namespace tutti::model
