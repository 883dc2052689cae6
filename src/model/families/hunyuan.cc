// Hunyuan, dense: norms of each head's queries and keys, after they rotate. The base of the
// rotation grows with a factor of the folder (alpha); a GGUF holds the base that comes of it.
#include <cmath>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kHunyuanConfigKeys[] = {"attention_bias", "use_qk_norm",
                                                   "rope_scaling.alpha", "rope_parameters.alpha"};
constexpr std::string_view kHunyuanDefaults =
    R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-5})";
constexpr RenamedTensor kHunyuanTensors[] = {
    {"self_attn.query_layernorm.", "attn_q_norm."},
    {"self_attn.key_layernorm.", "attn_k_norm."},
};

Status DescribeHunyuan(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.head_norm = HeadNorm::kPerHead;
  config.norm_rotated = true;
  RETURN_IF_ERROR(ReadBiases(source, config));
  if (source.form == Form::kGguf) return OkStatus();
  ASSIGN_OR_RETURN(const bool normed, source.keys.BoolOr("use_qk_norm", true));
  if (!normed) return RefuseParameter("use_qk_norm is false, which is not supported (true is)");
  ASSIGN_OR_RETURN(const std::string type, source.keys.StringOr("rope.scaling.type", "default"));
  ASSIGN_OR_RETURN(const double alpha, source.keys.FloatOr("rope.scaling.alpha", 0.0, 0.0, 1e6));
  if (type == "dynamic" && alpha != 0) {
    const double dims = config.head_dim;
    config.rope_freq_base *= std::pow(alpha, dims / (dims - 2));
  }
  return OkStatus();
}

}  // namespace

const Family kHunyuan = {.architecture = "hunyuan-dense",
                         .model_type = "hunyuan_v1_dense",
                         .config_keys = kHunyuanConfigKeys,
                         .config_defaults = kHunyuanDefaults,
                         .tensors = kHunyuanTensors,
                         .describe = &DescribeHunyuan};

}  // namespace tutti::model
