// ERNIE 4.5: llama whose adjacent rows rotate together in its folders too, so that a GGUF has the
// rows of the folder in their order. Its mixture: a bias for the choice of experts, shared experts,
// and one network in some layers.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kErnie45Defaults =
    R"({"hidden_size":1024,"intermediate_size":3072,"num_hidden_layers":18,
        "num_attention_heads":16,"num_key_value_heads":2,"head_dim":128,
        "max_position_embeddings":131072,"rms_norm_eps":1e-5,"rope_theta":5e5,
        "tie_word_embeddings":true})";

Status DescribeErnie45(const FamilySource& source, ModelConfig&) {
  return RefuseUnlessActivation(source, "silu");
}

constexpr std::string_view kErnie45MoeKeys[] = {"expert_count", "expert_used_count",
                                                "expert_shared_count"};
constexpr std::string_view kErnie45MoeConfigKeys[] = {
    "moe_intermediate_size", "moe_k",        "moe_layer_end_index", "moe_layer_interval",
    "moe_layer_start_index", "moe_norm_min", "moe_num_experts",     "moe_num_shared_experts"};
constexpr std::string_view kErnie45MoeDefaults =
    R"({"hidden_size":2560,"intermediate_size":12288,"num_hidden_layers":28,
        "num_attention_heads":20,"num_key_value_heads":4,"max_position_embeddings":131072,
        "rms_norm_eps":1e-5,"rope_theta":5e5,"tie_word_embeddings":true,
        "moe_intermediate_size":1536,"moe_k":6,"moe_num_experts":64,"moe_num_shared_experts":2,
        "moe_layer_start_index":1})";
constexpr RenamedTensor kErnie45MoeTensors[] = {
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
};

Status DescribeErnie45Moe(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(ReadExpertWidth(source, config));
  config.router_bias = true;
  ASSIGN_OR_RETURN(const int64_t shared, keys.IntOr("expert_shared_count", 0, 0, 64));
  config.shared_feed_forward = static_cast<int>(shared) * config.expert_feed_forward;
  return ReadLayersWithoutExperts(source, config);
}

}  // namespace

const Family kErnie45Moe = {.architecture = "ernie4_5-moe",
                            .model_type = "ernie4_5_moe",
                            .gguf_rope = kernels::RopeMode::kAdjacent,
                            .folder_rope = kernels::RopeMode::kAdjacent,
                            .keys = kErnie45MoeKeys,
                            .config_keys = kErnie45MoeConfigKeys,
                            .config_defaults = kErnie45MoeDefaults,
                            .tensors = kErnie45MoeTensors,
                            .expert_width_key = true,
                            .describe = &DescribeErnie45Moe};
const Family kErnie45 = {.architecture = "ernie4_5",
                         .model_type = "ernie4_5",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .folder_rope = kernels::RopeMode::kAdjacent,
                         .config_defaults = kErnie45Defaults,
                         .describe = &DescribeErnie45};

}  // namespace tutti::model
