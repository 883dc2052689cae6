// Granite 3: llama with multipliers of embedding, residuals, scores and logits; and its mixtures. A
// GGUF's rows rotate as llama's.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kGraniteConfigKeys[] = {"attention_bias", "attention_multiplier",
                                                   "embedding_multiplier", "logits_scaling",
                                                   "residual_multiplier"};
constexpr std::string_view kGraniteDefaults =
    R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-6})";
constexpr std::string_view kGraniteKeys[] = {"embedding_scale", "residual_scale", "attention.scale",
                                             "logit_scale"};

Status DescribeGranite(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  constexpr double kLeast = 1e-6, kMost = 1e6;
  ASSIGN_OR_RETURN(config.embedding_scale,
                   source.keys.FloatOr("embedding_scale", 1.0, kLeast, kMost));
  ASSIGN_OR_RETURN(config.residual_scale,
                   source.keys.FloatOr("residual_scale", 1.0, kLeast, kMost));
  ASSIGN_OR_RETURN(config.attention_scale,
                   source.keys.FloatOr("attention.scale", 1.0, kLeast, kMost));
  // Logits are divided by it.
  ASSIGN_OR_RETURN(const double divisor, source.keys.FloatOr("logit_scale", 1.0, kLeast, kMost));
  config.logit_scale = 1.0 / divisor;
  return ReadAttentionBias(source, config);
}

constexpr std::string_view kGraniteMoeConfigKeys[] = {
    "attention_bias",      "attention_multiplier", "embedding_multiplier", "logits_scaling",
    "num_experts_per_tok", "num_local_experts",    "residual_multiplier"};
constexpr std::string_view kGraniteMoeDefaults =
    R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
        "num_local_experts":8,"num_experts_per_tok":2})";
constexpr std::string_view kGraniteMoeKeys[] = {"embedding_scale", "residual_scale",
                                                "attention.scale", "logit_scale",
                                                "expert_count",    "expert_used_count"};
Status DescribeGraniteMoe(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(DescribeGranite(source, config));
  RETURN_IF_ERROR(ReadExperts(source, config));
  if (config.experts == 0)
    return RefuseParameter("{} is missing", source.keys.Spelled("expert_count"));
  return OkStatus();
}

}  // namespace

const Family kGranite = {.architecture = "granite",
                         .model_type = "granite",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .keys = kGraniteKeys,
                         .config_keys = kGraniteConfigKeys,
                         .config_defaults = kGraniteDefaults,
                         .describe = &DescribeGranite};

const Family kGraniteMoe = {.architecture = "granitemoe",
                            .model_type = "granitemoe",
                            .gguf_rope = kernels::RopeMode::kAdjacent,
                            .keys = kGraniteMoeKeys,
                            .config_keys = kGraniteMoeConfigKeys,
                            .config_defaults = kGraniteMoeDefaults,
                            .describe = &DescribeGraniteMoe};

}  // namespace tutti::model
