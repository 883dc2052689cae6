// ModernBERT (Warner et al. 2024): norms before attention and feed-forward, none before the first
// attention; rotation; a gated feed-forward block (GeGLU); most layers see a window around each
// token, and rotate with a base of their own. Biases where the file says so, usually none.
#include <array>

#include "model/config.h"
#include "model/encoder_families/family.h"

namespace tutti::model {
namespace {

constexpr std::array<EncoderNames, 1> kModernBertNames = {
    EncoderNames{.words = "embeddings.tok_embeddings",
                 .embedding_norm = "embeddings.norm",
                 .layers = "layers.",
                 .qkv = "attn.Wqkv",
                 .attn_output = "attn.Wo",
                 .attn_norm = "attn_norm",
                 .gate_up = "mlp.Wi",
                 .down = "mlp.Wo",
                 .ffn_norm = "mlp_norm",
                 .final_norm = "final_norm",
                 .head_dense = "head.dense",
                 .head_norm = "head.norm",
                 .head_out = "classifier",
                 .mlm_dense = "head.dense",
                 .mlm_norm = "head.norm",
                 .mlm_out = "decoder",
                 .mlm_bias = "decoder.bias"}};
constexpr std::string_view kModernBertPrefixes[] = {"model."};
constexpr double kGlobalBase = 160000, kLocalBase = 10000;

void SetModernBertTraits(EncoderConfig& config) {
  config.norm_first = true;
  config.first_norm = false;
  config.gated = true;
  config.activation_function = Activation::kGelu;
  config.qkv_bias = config.output_bias = config.up_bias = config.down_bias = false;
  config.norm_bias = false;
  config.head.activation = Activation::kGelu;
  config.head.dense_bias = false;
  config.head.norm = true;
}

// local_attention is the width of the window, half of it on each side.
void SetWindow(int width, int every, EncoderConfig& config) {
  config.window = width / 2;
  for (int i = 0; i < config.layers; ++i) config.windowed.push_back(i % every != 0);
}

Status ReadLayerTypes(const JsonFile& file, EncoderConfig& config) {
  constexpr std::string_view kKey = "layer_types";
  const boost::json::value* types = file.Find(kKey);
  if (types == nullptr) return OkStatus();
  const boost::json::array* list = types->if_array();
  if (list == nullptr || list->size() != static_cast<size_t>(config.layers))
    return file.Refuse(kKey, "must list {} layers", config.layers);
  for (size_t i = 0; i < list->size(); ++i) {
    config.windowed[i] = (*list)[i] == "sliding_attention";
    if (!config.windowed[i] && (*list)[i] != "full_attention")
      return file.Refuse(kKey, "names {}, not sliding_attention or full_attention",
                         Excerpt((*list)[i]));
  }
  return OkStatus();
}

Status DescribeModernBert(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(file, "hidden_activation", "gelu"));
  RETURN_IF_ERROR(ReadBertShape(file, 0, config, "norm_eps"));
  config.token_types = 0;
  if (!file.Has("norm_eps")) config.norm_eps = 1e-5F;
  SetModernBertTraits(config);
  ASSIGN_OR_RETURN(config.qkv_bias, file.BoolOr("attention_bias", false));
  config.output_bias = config.qkv_bias;
  ASSIGN_OR_RETURN(config.up_bias, file.BoolOr("mlp_bias", false));
  config.down_bias = config.up_bias;
  ASSIGN_OR_RETURN(config.norm_bias, file.BoolOr("norm_bias", false));
  ASSIGN_OR_RETURN(const int width, file.IntOr("local_attention", 128, 2, 2 * kMaxContext));
  ASSIGN_OR_RETURN(const int every, file.IntOr("global_attn_every_n_layers", 3, 1, kMaxLayers));
  SetWindow(width, every, config);
  RETURN_IF_ERROR(ReadLayerTypes(file, config));
  ASSIGN_OR_RETURN(config.rope_base, file.FloatOr("global_rope_theta", kGlobalBase, 1, 1e9));
  ASSIGN_OR_RETURN(config.rope_window_base, file.FloatOr("local_rope_theta", kLocalBase, 1, 1e9));
  if (file.Has("rope_scaling")) return file.Refuse("rope_scaling", "is not supported");
  RETURN_IF_ERROR(ReadRopeParameters(file, "full_attention", &config.rope_base));
  RETURN_IF_ERROR(ReadRopeParameters(file, "sliding_attention", &config.rope_window_base));
  ASSIGN_OR_RETURN(config.head.activation, ReadActivationOf(file, "classifier_activation", "gelu"));
  ASSIGN_OR_RETURN(config.head.dense_bias, file.BoolOr("classifier_bias", false));
  ASSIGN_OR_RETURN(const std::string pooling, file.StringOr("classifier_pooling", "cls"));
  config.head.mean = pooling == "mean";
  if (pooling == "mean" || pooling == "cls") return OkStatus();
  return file.Refuse("classifier_pooling", "is neither cls nor mean");
}

Status DescribeModernBertGguf(const HyperParameters& keys, EncoderConfig& config) {
  SetModernBertTraits(config);
  config.head.mean = true;  // no key of these files says which row is scored
  ASSIGN_OR_RETURN(config.rope_base, keys.FloatOr("rope.freq_base", kGlobalBase, 1, 1e9));
  ASSIGN_OR_RETURN(config.rope_window_base, keys.FloatOr("rope.freq_base_swa", kLocalBase, 1, 1e9));
  ASSIGN_OR_RETURN(const int64_t width, keys.IntOr("attention.sliding_window", 0, 0, kMaxContext));
  if (width == 1) return RefuseParameter("attention.sliding_window is 1, not 2 or more");
  if (width == 0) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t every,
                   keys.IntOr("attention.sliding_window_pattern", 3, 1, kMaxLayers));
  SetWindow(static_cast<int>(width), static_cast<int>(every), config);
  return OkStatus();
}

}  // namespace

const EncoderFamily kModernBert = {.model_type = "modernbert",
                                   .architecture = "modern-bert",
                                   .in_gguf = true,
                                   .class_prefix = "ModernBert",
                                   .prefixes = kModernBertPrefixes,
                                   .names = kModernBertNames,
                                   .describe = &DescribeModernBert,
                                   .describe_gguf = &DescribeModernBertGguf};

}  // namespace tutti::model
