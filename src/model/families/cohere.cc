// Cohere: Command R, and Command R7B and A (cohere2). LayerNorm without a bias, which attention and
// feed-forward share and after which both are added at once; logits have a factor; adjacent rows
// rotate together in folders too. In cohere2 layers without a window do not rotate.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kCohereKeys[] = {"logit_scale"};
constexpr std::string_view kCohere2Keys[] = {"logit_scale", "attention.sliding_window"};
constexpr std::string_view kCohereConfigKeys[] = {"attention_bias", "layer_norm_eps",
                                                  "logit_scale"};
constexpr std::string_view kCohere2ConfigKeys[] = {"attention_bias",
                                                   "layer_norm_eps",
                                                   "layer_types",
                                                   "logit_scale",
                                                   "sliding_window",
                                                   "sliding_window_pattern",
                                                   "_sliding_window_pattern"};
constexpr std::string_view kCohereDefaults =
    R"({"hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,
        "num_attention_heads":64,"max_position_embeddings":8192,"layer_norm_eps":1e-5,
        "logit_scale":0.0625,"tie_word_embeddings":true})";
constexpr std::string_view kCohere2Defaults =
    R"({"hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,
        "num_attention_heads":64,"max_position_embeddings":8192,"layer_norm_eps":1e-5,
        "logit_scale":0.0625,"tie_word_embeddings":true,"sliding_window":4096})";

Status DescribeCohere(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.layer_norm = true;
  config.parallel = true;
  config.ffn_norm = "attn_norm";
  ASSIGN_OR_RETURN(config.logit_scale, source.keys.Float("logit_scale", 1e-6, 1e6));
  return ReadBiases(source, config);
}

Status DescribeCohere2(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(DescribeCohere(source, config));
  int64_t every = 4;
  if (!source.keys.Has("attention.sliding_window_pattern")) {
    ASSIGN_OR_RETURN(every, source.keys.IntOr("sliding_window_pattern", every, 1, kMaxLayers));
  }
  RETURN_IF_ERROR(ReadKindsOfLayers(source, static_cast<int>(every), config));
  if (config.window == 0)
    return RefuseParameter("{} is missing", source.keys.Spelled("attention.sliding_window"));
  config.unrotated = config.windowed;
  config.unrotated.flip();
  return OkStatus();
}

}  // namespace

const Family kCohere = {.architecture = "command-r",
                        .model_type = "cohere",
                        .gguf_rope = kernels::RopeMode::kAdjacent,
                        .folder_rope = kernels::RopeMode::kAdjacent,
                        .keys = kCohereKeys,
                        .config_keys = kCohereConfigKeys,
                        .config_defaults = kCohereDefaults,
                        .norm_eps = kLayerNormEps,
                        .describe = &DescribeCohere};
const Family kCohere2 = {.architecture = "cohere2",
                         .model_type = "cohere2",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .folder_rope = kernels::RopeMode::kAdjacent,
                         .keys = kCohere2Keys,
                         .config_keys = kCohere2ConfigKeys,
                         .config_defaults = kCohere2Defaults,
                         .norm_eps = kLayerNormEps,
                         .describe = &DescribeCohere2};

}  // namespace tutti::model
