// OLMoE: a mixture whose weights need not sum to 1; norms of all queries, all keys.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kOlmoeKeys[] = {"expert_count", "expert_used_count"};
constexpr std::string_view kOlmoeConfigKeys[] = {"attention_bias", "norm_topk_prob", "num_experts",
                                                 "num_experts_per_tok"};
constexpr std::string_view kOlmoeDefaults =
    R"({"hidden_size":2048,"intermediate_size":2048,"num_hidden_layers":16,
        "num_attention_heads":16,"max_position_embeddings":4096,"rms_norm_eps":1e-5,
        "num_experts_per_tok":8,"num_experts":64})";

Status DescribeOlmoe(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadExperts(source, config));
  if (config.experts == 0)
    return RefuseParameter("{} is missing", source.keys.Spelled("expert_count"));
  ASSIGN_OR_RETURN(config.expert_weights_sum_to_1,
                   source.keys.BoolOr("expert_weights_norm", false));
  config.head_norm = HeadNorm::kWholeRow;
  return ReadAttentionBias(source, config);
}

}  // namespace

const Family kOlmoe = {.architecture = "olmoe",
                       .model_type = "olmoe",
                       .keys = kOlmoeKeys,
                       .config_keys = kOlmoeConfigKeys,
                       .config_defaults = kOlmoeDefaults,
                       .describe = &DescribeOlmoe};

}  // namespace tutti::model
