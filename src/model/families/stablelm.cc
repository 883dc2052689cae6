// StableLM 2 and 3B: LayerNorm, heads that rotate in part; where use_parallel_residual is set,
// attention and feed-forward share their norm and are added at once. Norms of each head
// (StableLM 2 12B) are refused by name.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kStableLmConfigKeys[] = {"layer_norm_eps", "use_parallel_residual",
                                                    "use_qkv_bias"};
constexpr std::string_view kStableLmDefaults =
    R"({"hidden_size":2560,"intermediate_size":6912,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":32,"max_position_embeddings":4096,
        "layer_norm_eps":1e-5,"partial_rotary_factor":0.25})";

Status DescribeStableLm(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.layer_norm = true;
  config.norm_bias = true;
  RETURN_IF_ERROR(ReadBiases(source, config));
  config.output_bias = false;
  // Converters write a key for it that does not always hold: the second norm decides.
  config.parallel = source.store.Find("blk.0.ffn_norm.weight") == nullptr;
  if (source.form == Form::kTransformers) {
    ASSIGN_OR_RETURN(config.parallel, source.keys.BoolOr("use_parallel_residual", false));
  }
  if (config.parallel) config.ffn_norm = "attn_norm";
  return OkStatus();
}

}  // namespace

const Family kStableLm = {.architecture = "stablelm",
                          .model_type = "stablelm",
                          .config_keys = kStableLmConfigKeys,
                          .config_defaults = kStableLmDefaults,
                          .rope_partial = true,
                          .norm_eps = kLayerNormEps,
                          .describe = &DescribeStableLm};

}  // namespace tutti::model
