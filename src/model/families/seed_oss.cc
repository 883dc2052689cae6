// Seed-OSS: biases of queries, keys and values, and apart from them of the output projection. Its
// GGUF calls the norm before the feed-forward what others call the norm behind attention.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kSeedOssConfigKeys[] = {"attention_bias", "attention_out_bias"};
constexpr std::string_view kSeedOssDefaults =
    R"({"hidden_size":4096,"intermediate_size":27648,"num_hidden_layers":64,
        "num_attention_heads":80,"num_key_value_heads":8,"head_dim":128,
        "max_position_embeddings":524288,"rms_norm_eps":1e-6,"attention_bias":true})";
constexpr RenamedTensor kSeedOssTensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
};

Status DescribeSeedOss(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.ffn_norm = "post_attention_norm";
  RETURN_IF_ERROR(ReadBiases(source, config));
  if (source.form == Form::kGguf) return OkStatus();
  ASSIGN_OR_RETURN(config.output_bias, source.keys.BoolOr("attention_out_bias", false));
  return OkStatus();
}

}  // namespace

const Family kSeedOss = {.architecture = "seed_oss",
                         .model_type = "seed_oss",
                         .config_keys = kSeedOssConfigKeys,
                         .config_defaults = kSeedOssDefaults,
                         .tensors = kSeedOssTensors,
                         .describe = &DescribeSeedOss};

}  // namespace tutti::model
