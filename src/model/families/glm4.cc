// GLM 4 (0414): norms before and behind attention and feed-forward, biases of queries, keys and
// values, and gate and up in one tensor. Half of a head rotates, adjacent rows together, in folders
// as in GGUFs.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kGlm4ConfigKeys[] = {"attention_bias"};
constexpr std::string_view kGlm4Defaults =
    R"({"hidden_size":4096,"intermediate_size":13696,"num_hidden_layers":40,
        "num_attention_heads":32,"num_key_value_heads":2,"head_dim":128,
        "max_position_embeddings":131072,"rms_norm_eps":1.5625e-7,"partial_rotary_factor":0.5,
        "attention_bias":true})";
constexpr RenamedTensor kGlm4Tensors[] = {
    {"post_self_attn_layernorm.", "post_attention_norm."},
    {"post_mlp_layernorm.", "post_ffw_norm."},
    {"mlp.gate_up_proj.", "ffn_up."},
};
constexpr JoinedTensor kGlm4Joined[] = {
    {"ffn_gate.weight", "ffn_up.weight", 0},
    {"ffn_up.weight", "ffn_up.weight", 1},
};

Status DescribeGlm4(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  // GLM 4V, whose converter moves the rows of such a file to rotate in halves.
  if (source.keys.Has("rope.dimension_sections")) {
    return RefuseParameter("{}: rotation in sections is not supported",
                           source.keys.Spelled("rope.dimension_sections"));
  }
  config.norm_after = true;
  RETURN_IF_ERROR(ReadBiases(source, config));
  if (source.form == Form::kTransformers) config.output_bias = false;
  return OkStatus();
}

}  // namespace

const Family kGlm4 = {.architecture = "glm4",
                      .model_type = "glm4",
                      .gguf_rope = kernels::RopeMode::kAdjacent,
                      .folder_rope = kernels::RopeMode::kAdjacent,
                      .config_keys = kGlm4ConfigKeys,
                      .config_defaults = kGlm4Defaults,
                      .rope_partial = true,
                      .tensors = kGlm4Tensors,
                      .gguf_joined = kGlm4Joined,
                      .describe = &DescribeGlm4};

}  // namespace tutti::model
