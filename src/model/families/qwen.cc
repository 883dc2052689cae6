// Qwen 2 and 2.5: biases of queries, keys and values. Qwen 3: norms of each head instead. The
// mixture of experts of each; Qwen 2's has a shared expert.
#include <algorithm>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kQwenKeys[] = {"attention.sliding_window"};
constexpr std::string_view kQwenMoeKeys[] = {"attention.sliding_window", "expert_count",
                                             "expert_used_count"};
constexpr std::string_view kQwen2ConfigKeys[] = {"layer_types", "max_window_layers",
                                                 "sliding_window", "use_sliding_window"};
constexpr std::string_view kQwen2Defaults =
    R"({"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":32,"max_position_embeddings":32768,
        "rms_norm_eps":1e-6,"sliding_window":4096,"max_window_layers":28})";
constexpr std::string_view kQwen3ConfigKeys[] = {
    "attention_bias", "layer_types", "max_window_layers", "sliding_window", "use_sliding_window"};
constexpr std::string_view kQwen3Defaults =
    R"({"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":32,"head_dim":128,
        "max_position_embeddings":32768,"rms_norm_eps":1e-6,"sliding_window":4096,
        "max_window_layers":28})";
constexpr std::string_view kQwen3MoeConfigKeys[] = {
    "attention_bias", "decoder_sparse_step", "max_window_layers",     "mlp_only_layers",
    "norm_topk_prob", "num_experts",         "num_experts_per_tok",   "num_local_experts",
    "sliding_window", "use_sliding_window",  "moe_intermediate_size",
};
constexpr std::string_view kQwen2MoeConfigKeys[] = {
    "qkv_bias",          "decoder_sparse_step", "layer_types",
    "max_window_layers", "mlp_only_layers",     "moe_intermediate_size",
    "norm_topk_prob",    "num_experts",         "num_experts_per_tok",
    "sliding_window",    "use_sliding_window",  "shared_expert_intermediate_size"};
constexpr std::string_view kQwen2MoeDefaults =
    R"({"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,
        "num_attention_heads":16,"num_key_value_heads":16,"max_position_embeddings":32768,
        "rms_norm_eps":1e-6,"sliding_window":4096,"max_window_layers":28,
        "moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,
        "num_experts_per_tok":4,"num_experts":60})";
constexpr std::string_view kQwen3MoeDefaults =
    R"({"hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":24,
        "num_attention_heads":32,"num_key_value_heads":4,"max_position_embeddings":32768,
        "rms_norm_eps":1e-6,"sliding_window":4096,"moe_intermediate_size":768,
        "num_experts_per_tok":8,"num_experts":128})";

// All files of these models state a window, but nearly all published ones switch it off. A GGUF by
// another program that states a window means it to be used, unlike a folder without
// use_sliding_window; a GGUF with a list of windowed layers was written by Tutti.
Status ReadQwenWindow(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kLayers = "attention.sliding_window_pattern";
  if (source.form == Form::kGguf) {
    RETURN_IF_ERROR(ReadWindow(source, config));
    if (config.window == 0) return OkStatus();
    if (source.keys.Has(kLayers)) return ReadWindowedLayers(source, config);
    return RefuseParameter("sliding-window attention ({} tokens) is not supported in {}",
                           config.window, config.architecture);
  }
  ASSIGN_OR_RETURN(const bool windows, source.keys.BoolOr("use_sliding_window", false));
  const bool has_layers = source.keys.Has(kLayers);
  if (windows) RETURN_IF_ERROR(ReadWindow(source, config));
  if (has_layers) {
    RETURN_IF_ERROR(ReadWindowedLayers(source, config));
  } else if (config.experts == 0) {  // of a mixture all layers have it
    ASSIGN_OR_RETURN(const int64_t first, source.keys.IntOr("max_window_layers", 28, 0, 1 << 20));
    for (int i = 0; i < config.layers; ++i) config.windowed.push_back(i >= first);
  }
  const auto& layers = config.windowed;
  const bool some = std::find(layers.begin(), layers.end(), true) != layers.end();
  if (has_layers && some && !windows) {
    return RefuseParameter("{} names layers with a window, use_sliding_window is false",
                           source.keys.Spelled(kLayers));
  }
  if (!some && config.experts == 0) config.window = 0;
  if (config.window == 0) config.windowed.clear();
  return OkStatus();
}

Status DescribeQwen2(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.qkv_bias = true;
  return ReadQwenWindow(source, config);
}

Status DescribeQwen3(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadAttentionBias(source, config));
  config.head_norm = HeadNorm::kPerHead;
  return ReadQwenWindow(source, config);
}

Status DescribeQwen3Moe(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(DescribeQwen3(source, config));
  RETURN_IF_ERROR(ReadExpertWidth(source, config));
  RETURN_IF_ERROR(ReadLayersWithoutExperts(source, config));
  ASSIGN_OR_RETURN(config.expert_weights_sum_to_1,
                   source.keys.BoolOr("expert_weights_norm", source.form == Form::kGguf));
  return OkStatus();
}

// The shared expert's output is weighed by a sigmoid of a gate of its own.
Status DescribeQwen2Moe(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(DescribeQwen2(source, config));
  RETURN_IF_ERROR(ReadExpertWidth(source, config));
  // Old GGUFs lack it: their shared expert is as wide as a layer without experts.
  ASSIGN_OR_RETURN(const int64_t shared,
                   source.keys.IntOr("expert_shared_feed_forward_length", config.feed_forward, 1,
                                     kMaxFeedForward));
  config.shared_feed_forward = static_cast<int>(shared);
  config.shared_gate = true;
  ASSIGN_OR_RETURN(config.qkv_bias, source.keys.BoolOr("qkv_bias", true));
  if (source.form == Form::kGguf)
    config.qkv_bias = source.store.Find("blk.0.attn_q.bias") != nullptr;
  RETURN_IF_ERROR(ReadLayersWithoutExperts(source, config));
  ASSIGN_OR_RETURN(config.expert_weights_sum_to_1,
                   source.keys.BoolOr("expert_weights_norm", false));
  return OkStatus();
}

}  // namespace

const Family kQwen2 = {.architecture = "qwen2",
                       .model_type = "qwen2",
                       .keys = kQwenKeys,
                       .config_keys = kQwen2ConfigKeys,
                       .config_defaults = kQwen2Defaults,
                       .window_list = true,
                       .describe = &DescribeQwen2};
const Family kQwen2Moe = {.architecture = "qwen2moe",
                          .model_type = "qwen2_moe",
                          .keys = kQwenMoeKeys,
                          .config_keys = kQwen2MoeConfigKeys,
                          .config_defaults = kQwen2MoeDefaults,
                          .expert_width_key = true,
                          .window_list = true,
                          .describe = &DescribeQwen2Moe};
const Family kQwen3 = {.architecture = "qwen3",
                       .model_type = "qwen3",
                       .keys = kQwenKeys,
                       .config_keys = kQwen3ConfigKeys,
                       .config_defaults = kQwen3Defaults,
                       .window_list = true,
                       .describe = &DescribeQwen3};
const Family kQwen3Moe = {.architecture = "qwen3moe",
                          .model_type = "qwen3_moe",
                          .keys = kQwenMoeKeys,
                          .config_keys = kQwen3MoeConfigKeys,
                          .config_defaults = kQwen3MoeDefaults,
                          .expert_width_key = true,
                          .window_list = true,
                          .describe = &DescribeQwen3Moe};

}  // namespace tutti::model
