#include "model/families/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/quote.h"

namespace tutti::model {
namespace {

// If several families share an architecture, a GGUF of it belongs to the first one here.
constexpr const Family* kFamilies[] = {
    &kLlama,          &kMistral,    &kMixtral,    &kQwen2,    &kQwen3,      &kQwen3Moe,
    &kGranite,        &kOlmo2,      &kPhi3,       &kGemma2,   &kGemma3,     &kSmolLm3,
    &kSeedOss,        &kErnie45,    &kOlmo3,      &kExaone4,  &kGemma,      &kGlm4,
    &kHunyuan,        &kLfm2,       &kLfm2Moe,    &kFalconH1, &kNemotronH,  &kNemotronHMoe,
    &kGraniteHybrid,  &kGraniteMoe, &kQwen2Moe,   &kGlm4Moe,  &kOlmoe,      &kErnie45Moe,
    &kCohere,         &kCohere2,    &kArcee,      &kNemotron, &kStarcoder2, &kApertus,
    &kStableLm,       &kMinistral3, &kQwen3Next,  &kQwen35,   &kQwen35Moe,  &kGptOss,
    &kGemmaEmbedding, &kDeepseekV2, &kDeepseekV3, &kGemma3n,  &kGemma4,     &kLlama4,
    &kBitNet};

std::string ListOf(std::string_view Family::*name) {
  std::set<std::string_view> names;
  for (const Family* family : kFamilies) names.insert(family->*name);
  std::string list;
  for (const std::string_view each : names) list.append(list.empty() ? "" : ", ").append(each);
  return list;
}

}  // namespace

const Family* FamilyOfArchitecture(std::string_view architecture) {
  for (const Family* family : kFamilies)
    if (family->architecture == architecture) return family;
  return nullptr;
}

const Family* FamilyOfModelType(std::string_view model_type) {
  for (const Family* family : kFamilies)
    if (family->model_type == model_type) return family;
  return nullptr;
}

std::string KnownArchitectures() { return ListOf(&Family::architecture); }
std::string KnownModelTypes() { return ListOf(&Family::model_type); }

Status RefuseUnlessActivation(const FamilySource& source, std::string_view wanted) {
  ASSIGN_OR_RETURN(const std::string activation,
                   source.keys.StringOr("activation", std::string(wanted)));
  // A synonym.
  if (activation == wanted || (activation == "swish" && wanted == "silu")) return OkStatus();
  return RefuseParameter("{} is {}, which is not supported here ({} is)",
                         source.keys.Spelled("activation"), Quote(activation), wanted);
}

Status ReadExperts(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t experts, source.keys.IntOr("expert_count", 0, 0, kMaxExperts));
  if (experts == 0) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t used, source.keys.Int("expert_used_count", 1, experts));
  config.experts = static_cast<int>(experts);
  config.experts_used = static_cast<int>(used);
  return OkStatus();
}

Status ReadExpertWidth(const FamilySource& source, ModelConfig& config) {
  if (config.experts == 0)
    return RefuseParameter("{} is missing", source.keys.Spelled("expert_count"));
  return ReadInt(source.keys, "expert_feed_forward_length", 1, kMaxFeedForward,
                 &config.expert_feed_forward);
}

Status ReadSigmoidRouter(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  ASSIGN_OR_RETURN(const int64_t groups, keys.IntOr("expert_group_count", 1, 0, kMaxExperts));
  if (groups > 1) {
    return RefuseParameter("{} is {}, which is not supported (1 is)",
                           keys.Spelled("expert_group_count"), groups);
  }
  ASSIGN_OR_RETURN(const int64_t score, keys.IntOr("expert_gating_func", 2, 0, 100));
  if (score != 2) {
    return RefuseParameter("{} is {}, which is not supported (2, a sigmoid, is)",
                           keys.Spelled("expert_gating_func"), score);
  }
  config.router_score = RouterScore::kSigmoid;
  ASSIGN_OR_RETURN(config.expert_weights_sum_to_1, keys.BoolOr("expert_weights_norm", true));
  ASSIGN_OR_RETURN(const double scale, keys.FloatOr("expert_weights_scale", 1.0, 1e-3, 1e3));
  config.expert_weights_scale = static_cast<float>(scale);
  return OkStatus();
}

Status ReadLayersWithoutExperts(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kListed = "mlp_only_layers";
  std::vector<bool> without(static_cast<size_t>(config.layers));
  if (source.form == Form::kGguf) {
    for (int i = 0; i < config.layers; ++i) {
      const auto has = [&](std::string_view name) {
        return source.store.Find(fmt::format("blk.{}.{}", i, name)) != nullptr;
      };
      without[static_cast<size_t>(i)] = !has("ffn_gate_inp.weight") && has("ffn_gate.weight");
    }
  } else {
    if (source.keys.Has(kListed)) {
      ASSIGN_OR_RETURN(without, source.keys.Listed(kListed, config.layers));
    }
    ASSIGN_OR_RETURN(const int64_t step,
                     source.keys.IntOr("interleave_moe_layer_step", 1, 1, kMaxLayers));
    ASSIGN_OR_RETURN(const int64_t first,
                     source.keys.IntOr("leading_dense_block_count", 0, 0, config.layers - 1));
    ASSIGN_OR_RETURN(const int64_t last,
                     source.keys.IntOr("moe_layer_end_index", -1, -1, kMaxLayers));
    for (int i = 0; i < config.layers; ++i) {
      if ((i + 1) % step != 0 || i < first || (last >= 0 && i > last))
        without[static_cast<size_t>(i)] = true;
    }
  }
  if (std::find(without.begin(), without.end(), false) == without.end())
    return RefuseParameter("no layer has experts, though {} is {}",
                           source.keys.Spelled("expert_count"), config.experts);
  if (std::find(without.begin(), without.end(), true) != without.end())
    config.without_experts = std::move(without);
  return OkStatus();
}

Status ReadExpertGroups(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  constexpr std::string_view kCount = "expert_group_count", kUsed = "expert_group_used_count";
  ASSIGN_OR_RETURN(const int64_t groups, keys.IntOr(kCount, 1, 0, kMaxExpertGroups));
  if (groups <= 1) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t used, keys.Int(kUsed, 1, groups));
  config.expert_groups = static_cast<int>(groups);
  config.expert_groups_used = static_cast<int>(used);
  const int size = config.experts / config.expert_groups;
  if (config.experts % config.expert_groups != 0 || size < 2) {
    return RefuseParameter("{} experts do not divide into {} {} of two or more", config.experts,
                           keys.Spelled(kCount), groups);
  }
  if (used * size < config.experts_used) {
    return RefuseParameter("{} {} of {} experts have fewer than the {} of {}", keys.Spelled(kUsed),
                           used, size, config.experts_used, keys.Spelled("expert_used_count"));
  }
  return OkStatus();
}

Status ReadWindow(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t window,
                   source.keys.IntOr("attention.sliding_window", 0, 0, kMaxContext));
  // A window as long as the context has no effect.
  config.window = window < config.max_context() ? static_cast<int>(window) : 0;
  return OkStatus();
}

Status ReadWindowedLayers(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (!source.keys.Has(kKey)) return OkStatus();
  ASSIGN_OR_RETURN(config.windowed, source.keys.Windowed(kKey, config.layers));
  return OkStatus();
}

Status ReadKindsOfLayers(const FamilySource& source, int every, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t window,
                   source.keys.IntOr("attention.sliding_window", 0, 0, kMaxContext));
  if (window != 0) {
    config.window = static_cast<int>(std::min<int64_t>(window, config.max_context()));
    for (int i = 0; i < config.layers; ++i) config.windowed.push_back((i + 1) % every != 0);
    return ReadWindowedLayers(source, config);
  }
  RETURN_IF_ERROR(ReadWindowedLayers(source, config));
  const auto& layers = config.windowed;
  if (std::find(layers.begin(), layers.end(), true) != layers.end()) {
    return RefuseParameter("{} names layers with a window, but there is no {}",
                           source.keys.Spelled("attention.sliding_window_pattern"),
                           source.keys.Spelled("attention.sliding_window"));
  }
  config.windowed.clear();
  return OkStatus();
}

Status ReadWindowRope(const FamilySource& source, double fallback, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.rope_window_freq_base,
                   source.keys.FloatOr("rope.freq_base_swa", fallback, 1.0, 1e12));
  ASSIGN_OR_RETURN(const std::string scaled, source.keys.StringOr("rope.scaling_swa", "default"));
  if (scaled == "default") return OkStatus();
  return RefuseParameter("{} is {}, which is not supported (default is)",
                         source.keys.Spelled("rope.scaling_swa"), Quote(scaled));
}

Status ReadAttentionBias(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, source.keys.BoolOr("attention.bias", false));
  config.output_bias = config.qkv_bias;
  return OkStatus();
}

Status ReadBiases(const FamilySource& source, ModelConfig& config) {
  if (source.form == Form::kTransformers) return ReadAttentionBias(source, config);
  config.qkv_bias = source.store.Find("blk.0.attn_q.bias") != nullptr;
  config.output_bias = source.store.Find("blk.0.attn_output.bias") != nullptr;
  return OkStatus();
}

Status ReadStateHeads(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(ReadInt(keys, "ssm.conv_kernel", 1, 1 << 10, &config.conv_taps));
  RETURN_IF_ERROR(ReadInt(keys, "ssm.state_size", 1, 1 << 12, &config.state_keys));
  RETURN_IF_ERROR(ReadInt(keys, "ssm.group_count", 1, kMaxHeads, &config.state_groups));
  RETURN_IF_ERROR(ReadInt(keys, "ssm.time_step_rank", 1, kMaxHeads, &config.state_heads));
  if (source.form == Form::kTransformers) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t inner, keys.Int("ssm.inner_size", 1, kMaxWidth));
  return DivideState(source, inner, config);
}

Status DivideState(const FamilySource& source, int64_t inner, ModelConfig& config) {
  constexpr std::string_view kHead = "mamba_d_head";
  if (inner % config.state_heads != 0)
    return RefuseParameter("{} heads do not share {} values evenly", config.state_heads, inner);
  config.state_values = static_cast<int>(inner / config.state_heads);
  // "auto" is allowed too.
  if (!source.keys.Has(kHead) || source.keys.Text(kHead).ok()) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t wide, source.keys.Int(kHead, 1, kMaxWidth));
  if (wide == config.state_values) return OkStatus();
  return RefuseParameter("{} heads of {} {} are not {} values", config.state_heads, kHead, wide,
                         inner);
}

Status ReadMamba2Biases(const FamilySource& source, ModelConfig& config) {
  if (source.form == Form::kTransformers) {
    ASSIGN_OR_RETURN(config.conv_bias, source.keys.BoolOr("ssm.conv_bias", true));
    ASSIGN_OR_RETURN(config.recurrent_bias, source.keys.BoolOr("ssm.projection_bias", false));
    return OkStatus();
  }
  const auto first = std::find(config.recurrent.begin(), config.recurrent.end(), true);
  const std::string block = fmt::format("blk.{}.", first - config.recurrent.begin());
  config.conv_bias = source.store.Find(block + "ssm_conv1d.bias") != nullptr;
  config.recurrent_bias = source.store.Find(block + "ssm_in.bias") != nullptr;
  return OkStatus();
}

}  // namespace tutti::model
