// GLM 4.5: a mixture whose router takes sigmoids and whose choice has a bias of its own; a shared
// expert; one network in the first layers. Half of a head rotates, in halves.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kGlm4MoeKeys[] = {"expert_count", "expert_used_count",
                                             "expert_shared_count"};
constexpr std::string_view kGlm4MoeConfigKeys[] = {
    "attention_bias",   "first_k_dense_replace", "moe_intermediate_size", "n_group",
    "n_routed_experts", "n_shared_experts",      "norm_topk_prob",        "num_experts_per_tok",
    "topk_group",       "use_qk_norm",           "routed_scaling_factor"};
constexpr std::string_view kGlm4MoeDefaults =
    R"({"hidden_size":4096,"intermediate_size":10944,"num_hidden_layers":46,
        "num_attention_heads":96,"num_key_value_heads":8,"max_position_embeddings":131072,
        "rms_norm_eps":1e-5,"partial_rotary_factor":0.5,"moe_intermediate_size":1408,
        "num_experts_per_tok":8,"n_shared_experts":1,"n_routed_experts":128,
        "first_k_dense_replace":1})";
constexpr RenamedTensor kGlm4MoeTensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
};

Status DescribeGlm4Moe(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  const bool gguf = source.form == Form::kGguf;
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(ReadExpertWidth(source, config));
  RETURN_IF_ERROR(ReadSigmoidRouter(source, config));
  config.router_bias = true;
  ASSIGN_OR_RETURN(const int64_t shared, keys.IntOr("expert_shared_count", 1, 0, 64));
  config.shared_feed_forward = static_cast<int>(shared) * config.expert_feed_forward;
  RETURN_IF_ERROR(ReadLayersWithoutExperts(source, config));
  config.ffn_norm = "post_attention_norm";
  RETURN_IF_ERROR(ReadBiases(source, config));
  config.output_bias = false;
  ASSIGN_OR_RETURN(bool normed, keys.BoolOr("use_qk_norm", false));
  if (gguf) normed = source.store.Find("blk.0.attn_q_norm.weight") != nullptr;
  if (normed) config.head_norm = HeadNorm::kPerHead;
  return OkStatus();
}

}  // namespace

const Family kGlm4Moe = {.architecture = "glm4moe",
                         .model_type = "glm4_moe",
                         .keys = kGlm4MoeKeys,
                         .config_keys = kGlm4MoeConfigKeys,
                         .config_defaults = kGlm4MoeDefaults,
                         .rope_partial = true,
                         .tensors = kGlm4MoeTensors,
                         .expert_width_key = true,
                         .describe = &DescribeGlm4Moe};

}  // namespace tutti::model
