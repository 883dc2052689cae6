#include <fmt/format.h>

#include "base/quote.h"
#include "model/families/family.h"

namespace tutti::model {

Status RefuseUnlessActivation(const FamilySource& source, std::string_view wanted) {
  ASSIGN_OR_RETURN(const std::string activation,
                   source.keys.StringOr("activation", std::string(wanted)));
  // A synonym.
  if (activation == wanted || (activation == "swish" && wanted == "silu")) return OkStatus();
  return InvalidArgument("model_hparam",
                         fmt::format("{} is {}, which is not supported here ({} is)",
                                     source.keys.Spelled("activation"), Quote(activation), wanted));
}

Status ReadExperts(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t experts, source.keys.IntOr("expert_count", 0, 0, kMaxExperts));
  if (experts == 0) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t used, source.keys.Int("expert_used_count", 1, experts));
  config.experts = static_cast<int>(experts);
  config.experts_used = static_cast<int>(used);
  return OkStatus();
}

Status ReadWindow(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t window,
                   source.keys.IntOr("attention.sliding_window", 0, 0, kMaxContext));
  // A window as long as the context has no effect.
  config.window = window < config.context_length ? static_cast<int>(window) : 0;
  return OkStatus();
}

Status ReadWindowedLayers(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (!source.keys.Has(kKey)) return OkStatus();
  ASSIGN_OR_RETURN(config.windowed, source.keys.Windowed(kKey, config.layers));
  return OkStatus();
}

Status ReadAttentionBias(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.qkv_bias, source.keys.BoolOr("attention.bias", false));
  config.output_bias = config.qkv_bias;
  return OkStatus();
}

}  // namespace tutti::model
