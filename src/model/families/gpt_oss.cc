// gpt-oss: a mixture whose experts and router have biases, with a clamped SwiGLU; a sink in the
// softmax of each head; windows in every other layer, beginning with the first. Its GGUF calls the
// norm before the feed-forward what others call the norm behind attention, and has no key for the
// exact ramp of its YaRN.
#include <utility>

#include "kernels/gemm.h"
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kGptOssKeys[] = {"attention.sliding_window", "expert_count",
                                            "expert_used_count"};
constexpr std::string_view kGptOssConfigKeys[] = {
    "attention_bias", "experts_per_token",   "initial_context_length",
    "layer_types",    "num_experts_per_tok", "num_local_experts",
    "sliding_window", "swiglu_alpha",        "swiglu_limit"};
constexpr std::string_view kGptOssDefaults =
    R"({"hidden_size":2880,"intermediate_size":2880,"num_hidden_layers":36,
        "num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,
        "max_position_embeddings":131072,"rms_norm_eps":1e-5,"rope_theta":150000.0,
        "sliding_window":128,"num_local_experts":128,"num_experts_per_tok":4,
        "attention_bias":true})";
constexpr int kWindowEvery = 2;
constexpr RenamedTensor kGptOssTensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.router.", "ffn_gate_inp."},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_up_exps.bias"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
};

Status DescribeGptOss(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  // The kernel computes with these.
  for (const auto& [key, computed] : {std::pair{"swiglu_limit", kernels::kClampedLimit},
                                      std::pair{"swiglu_alpha", kernels::kClampedAlpha}}) {
    ASSIGN_OR_RETURN(const double value, source.keys.FloatOr(key, computed, 0, 1e6));
    if (static_cast<float>(value) != computed)
      return RefuseParameter("{} is {}, which is not supported ({} is)", source.keys.Spelled(key),
                             value, computed);
  }
  // transformers' class has a scaling of its own where a config.json names none.
  constexpr std::string_view kScaling = "rope.scaling.type";
  if (source.form == Form::kTransformers && !source.keys.Has(kScaling))
    return RefuseParameter("{} is missing", source.keys.Spelled(kScaling));
  RETURN_IF_ERROR(ReadExperts(source, config));
  if (source.keys.Has("expert_feed_forward_length")) {
    RETURN_IF_ERROR(ReadExpertWidth(source, config));
  } else if (config.experts == 0) {
    return RefuseParameter("{} is missing", source.keys.Spelled("expert_count"));
  }
  config.ffn_norm = "post_attention_norm";
  config.gate = GateKind::kSiluClamped;
  config.attention_sinks = true;
  config.router_logit_bias = true;
  config.expert_bias = true;
  RETURN_IF_ERROR(ReadKindsOfLayers(source, kWindowEvery, config));
  return ReadBiases(source, config);
}

}  // namespace

const Family kGptOss = {.architecture = "gpt-oss",
                        .model_type = "gpt_oss",
                        .keys = kGptOssKeys,
                        .config_keys = kGptOssConfigKeys,
                        .config_defaults = kGptOssDefaults,
                        .yarn_truncates = false,
                        .tensors = kGptOssTensors,
                        .expert_width_key = true,
                        .window_every = kWindowEvery,
                        .alternating_experts = true,
                        .describe = &DescribeGptOss};

}  // namespace tutti::model
