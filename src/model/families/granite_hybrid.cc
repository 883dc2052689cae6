// Granite 4: Granite 3 with Mamba-2 in most layers, and no rotation in its hybrids. Its mixtures
// have a shared expert as well; without experts that is the feed-forward.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kHybridKeys[] = {
    "embedding_scale", "residual_scale",    "attention.scale", "logit_scale",
    "expert_count",    "expert_used_count", "ssm.conv_kernel", "ssm.state_size",
    "ssm.group_count", "ssm.time_step_rank"};
constexpr std::string_view kHybridConfigKeys[] = {
    "attention_bias",         "attention_multiplier",
    "embedding_multiplier",   "layer_types",
    "logits_scaling",         "mamba_chunk_size",
    "mamba_conv_bias",        "mamba_d_conv",
    "mamba_d_head",           "mamba_d_state",
    "mamba_expand",           "mamba_n_groups",
    "mamba_n_heads",          "mamba_proj_bias",
    "num_experts_per_tok",    "num_local_experts",
    "residual_multiplier",    "shared_intermediate_size",
    "position_embedding_type"};
constexpr std::string_view kHybridDefaults =
    R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
        "num_local_experts":8,"shared_intermediate_size":1024,"mamba_n_heads":128,
        "mamba_n_groups":1,"mamba_d_state":256,"mamba_d_conv":4,"mamba_expand":2,
        "mamba_conv_bias":true})";
constexpr RenamedTensor kHybridTensors[] = {
    {"shared_mlp.input_linear.", "ffn_up."},
    {"shared_mlp.output_linear.", "ffn_down."},
};

Status DescribeGraniteHybrid(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(kGranite.describe(source, config));
  RETURN_IF_ERROR(ReadExperts(source, config));
  constexpr std::string_view kShared = "expert_shared_feed_forward_length";
  if (config.experts == 0) {
    RETURN_IF_ERROR(ReadInt(source.keys, source.keys.Has(kShared) ? kShared : "feed_forward_length",
                            1, kMaxFeedForward, &config.feed_forward));
  } else {
    ASSIGN_OR_RETURN(const int64_t shared, source.keys.IntOr(kShared, 0, 0, kMaxFeedForward));
    config.shared_feed_forward = static_cast<int>(shared);
  }
  const bool folder = source.form == Form::kTransformers;
  if (folder) {
    ASSIGN_OR_RETURN(const std::string kind, source.keys.StringOr("position_embedding_type", ""));
    if (kind != "rope") config.rope_mode = kernels::RopeMode::kNone;
  } else {
    ASSIGN_OR_RETURN(const bool rotates, source.keys.BoolOr("rope.scaling.finetuned", false));
    if (!rotates) config.rope_mode = kernels::RopeMode::kNone;
  }
  ASSIGN_OR_RETURN(config.recurrent, source.keys.Recurrent("mamba", config.layers));
  if (config.recurrent_layers() == 0) return OkStatus();
  config.recurrence = Recurrence::kMamba2;
  RETURN_IF_ERROR(ReadStateHeads(source, config));
  if (folder) {
    ASSIGN_OR_RETURN(const int64_t expand, source.keys.IntOr("mamba_expand", 2, 1, 64));
    RETURN_IF_ERROR(DivideState(source, expand * config.width, config));
  }
  return ReadMamba2Biases(source, config);
}

}  // namespace

const Family kGraniteHybrid = {.architecture = "granitehybrid",
                               .model_type = "granitemoehybrid",
                               .gguf_rope = kernels::RopeMode::kAdjacent,
                               .keys = kHybridKeys,
                               .config_keys = kHybridConfigKeys,
                               .config_defaults = kHybridDefaults,
                               .tensors = kHybridTensors,
                               .state_keys = std::span(kHybridKeys).subspan(6),
                               .kv_heads_by_layer = true,
                               .describe = &DescribeGraniteHybrid};

}  // namespace tutti::model
