// Gemma 4: norms before and behind, and of values; scores are not scaled. Layers without a window
// have larger heads, of which a part rotates, and in the larger models no projection of values. The
// last layers of small models share keys and values of earlier ones, and each layer has an input of
// its own. One size has experts in addition to the network.
#include <algorithm>
#include <cmath>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kKeys[] = {"attention.sliding_window", "final_logit_softcapping",
                                      "expert_count", "expert_used_count"};
constexpr std::string_view kConfigKeys[] = {"attention_k_eq_v",
                                            "enable_moe_block",
                                            "final_logit_softcapping",
                                            "global_head_dim",
                                            "hidden_activation",
                                            "hidden_size_per_layer_input",
                                            "layer_types",
                                            "moe_intermediate_size",
                                            "num_experts",
                                            "num_global_key_value_heads",
                                            "num_kv_shared_layers",
                                            "per_layer_config",
                                            "sliding_window",
                                            "top_k_experts",
                                            "use_bidirectional_attention",
                                            "use_double_wide_mlp",
                                            "vocab_size_per_layer_input"};
constexpr std::string_view kDefaults =
    R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":30,
        "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"global_head_dim":512,
        "max_position_embeddings":131072,"rms_norm_eps":1e-6,"sliding_window":512,
        "hidden_size_per_layer_input":256,"vocab_size_per_layer_input":262144,
        "rope_parameters":{"sliding_attention":{"rope_type":"default","rope_theta":1e4},
          "full_attention":{"rope_type":"proportional","partial_rotary_factor":0.25,
            "rope_theta":1e6}}})";
constexpr RenamedTensor kTensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
    {"layer_scalar", "layer_output_scale.weight"},
    {"per_layer_input_gate.", "inp_gate."},
    {"per_layer_projection.", "proj."},
    {"post_per_layer_input_norm.", "post_norm."},
    {"pre_feedforward_layernorm_2.", "pre_ffw_norm_2."},
    {"post_feedforward_layernorm_1.", "post_ffw_norm_1."},
    {"post_feedforward_layernorm_2.", "post_ffw_norm_2."},
    {"router.proj.", "ffn_gate_inp."},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"experts.down_proj", "ffn_down_exps.weight"},
};

Status Describe(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "gelu_pytorch_tanh"));
  ASSIGN_OR_RETURN(const std::string both_ways,
                   keys.StringOr("use_bidirectional_attention", "vision"));
  if (both_ways != "vision")
    return RefuseParameter("use_bidirectional_attention is {}, which is not supported", both_ways);
  config.gate = GateKind::kGeluTanh;
  config.norm_after = config.value_norm = true;
  config.head_norm = HeadNorm::kPerHead;
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  config.attention_scale = 1.0;
  ASSIGN_OR_RETURN(const double cap, keys.FloatOr("final_logit_softcapping", 0.0, 0.0, 1e6));
  config.logit_softcap = static_cast<float>(cap);
  config.layer_scales = source.store.Find("blk.0.layer_output_scale.weight") != nullptr;
  RETURN_IF_ERROR(ReadLayerShapes(source, 6, config));
  RETURN_IF_ERROR(ReadLayerInputs(source, config));
  ASSIGN_OR_RETURN(const bool mixture, keys.BoolOr("enable_moe_block", source.form == Form::kGguf));
  if (!mixture) return OkStatus();
  RETURN_IF_ERROR(ReadExperts(source, config));
  config.dense_and_experts = config.experts != 0;
  if (config.experts == 0) {
    if (source.form == Form::kGguf) return OkStatus();
    return RefuseParameter("num_experts is missing, but enable_moe_block is true");
  }
  return ReadExpertWidth(source, config);
}

}  // namespace

const Family kGemma4 = {.architecture = "gemma4",
                        .model_type = "gemma4_text",
                        .keys = kKeys,
                        .config_keys = kConfigKeys,
                        .config_defaults = kDefaults,
                        .rope_of_layers = true,
                        .tensors = kTensors,
                        .expert_width_key = true,
                        .window_list = true,
                        .layers_differ = true,
                        .describe = &Describe};

}  // namespace tutti::model
