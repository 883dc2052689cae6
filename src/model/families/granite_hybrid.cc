// Granite 4: Granite 3 with Mamba-2 in most layers, and no rotation in its hybrids. Its mixtures
// have a shared expert as well; without experts that is the feed-forward.
#include <fmt/format.h>

#include <algorithm>

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
    {"mamba.in_proj.", "ssm_in."},
    {"mamba.out_proj.", "ssm_out."},
    {"mamba.conv1d.", "ssm_conv1d."},
    {"mamba.norm.", "ssm_norm."},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a"},
    {"mamba.D", "ssm_d"},
};

// A folder states the heads' width, or "auto"; a GGUF the width of all.
Status ReadHeads(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(ReadInt(keys, "ssm.conv_kernel", 1, 1 << 10, &config.conv_taps));
  RETURN_IF_ERROR(ReadInt(keys, "ssm.state_size", 1, 1 << 12, &config.state_keys));
  RETURN_IF_ERROR(ReadInt(keys, "ssm.group_count", 1, kMaxHeads, &config.state_groups));
  RETURN_IF_ERROR(ReadInt(keys, "ssm.time_step_rank", 1, kMaxHeads, &config.state_heads));
  int64_t inner = 0;
  if (source.form == Form::kTransformers) {
    ASSIGN_OR_RETURN(inner, keys.IntOr("mamba_expand", 2, 1, 64));
    inner *= config.width;
    if (keys.Has("mamba_d_head") && !keys.Text("mamba_d_head").ok()) {
      ASSIGN_OR_RETURN(const int64_t wide, keys.Int("mamba_d_head", 1, kMaxWidth));
      if (wide * config.state_heads != inner) {
        return RefuseParameter("{} heads of mamba_d_head {} are not mamba_expand x hidden_size, {}",
                               config.state_heads, wide, inner);
      }
    }
  } else {
    ASSIGN_OR_RETURN(inner, keys.Int("ssm.inner_size", 1, kMaxWidth));
  }
  if (inner % config.state_heads != 0)
    return RefuseParameter("{} heads do not share {} values evenly", config.state_heads, inner);
  config.state_values = static_cast<int>(inner / config.state_heads);
  return OkStatus();
}

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
  RETURN_IF_ERROR(ReadHeads(source, config));
  if (folder) {
    ASSIGN_OR_RETURN(config.conv_bias, source.keys.BoolOr("mamba_conv_bias", true));
    ASSIGN_OR_RETURN(config.recurrent_bias, source.keys.BoolOr("mamba_proj_bias", false));
    return OkStatus();
  }
  const auto first = std::find(config.recurrent.begin(), config.recurrent.end(), true);
  const std::string block = fmt::format("blk.{}.", first - config.recurrent.begin());
  config.conv_bias = source.store.Find(block + "ssm_conv1d.bias") != nullptr;
  config.recurrent_bias = source.store.Find(block + "ssm_in.bias") != nullptr;
  return OkStatus();
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
