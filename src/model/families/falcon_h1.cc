// Falcon H1: attention and Mamba-2 in each layer, which read the same rows and whose outputs are
// added; and multipliers of nearly all that a layer computes. A GGUF has these in its weights, so
// that they are traits of a folder alone:
// - queries and keys: a factor of the scores;
// - values, and outputs of Mamba-2: a factor of each row, before its projection;
// - what Mamba-2 reads: factors of its gates and steps, and of the convolution's weights;
// - the feed-forward d down(silu(g gate) up): with norms times g it is d/g of what layers add, the
//   scale of residuals, and the outputs above are divided by it.
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kFalconH1Keys[] = {"embedding_scale", "ssm.conv_kernel",
                                              "ssm.state_size", "ssm.group_count",
                                              "ssm.time_step_rank"};
constexpr std::string_view kFalconH1ConfigKeys[] = {"attention_in_multiplier",
                                                    "attention_out_multiplier",
                                                    "embedding_multiplier",
                                                    "key_multiplier",
                                                    "lm_head_multiplier",
                                                    "mamba_chunk_size",
                                                    "mamba_conv_bias",
                                                    "mamba_d_conv",
                                                    "mamba_d_head",
                                                    "mamba_d_ssm",
                                                    "mamba_d_state",
                                                    "mamba_expand",
                                                    "mamba_n_groups",
                                                    "mamba_n_heads",
                                                    "mamba_norm_before_gate",
                                                    "mamba_proj_bias",
                                                    "mamba_rms_norm",
                                                    "mamba_use_mlp",
                                                    "mlp_expansion_factor",
                                                    "mlp_multipliers",
                                                    "num_logits_to_keep",
                                                    "projectors_bias",
                                                    "ssm_in_multiplier",
                                                    "ssm_multipliers",
                                                    "ssm_out_multiplier",
                                                    "time_step_floor",
                                                    "time_step_max",
                                                    "time_step_min"};
constexpr std::string_view kFalconH1Defaults =
    R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":8192,
        "rms_norm_eps":1e-5,"rope_theta":100000.0,"mamba_d_ssm":1024,"mamba_n_heads":128,
        "mamba_n_groups":1,"mamba_d_state":256,"mamba_d_conv":4})";
constexpr RenamedTensor kFalconH1Tensors[] = {
    {"pre_ff_layernorm.", "ffn_norm."},
    {"feed_forward.gate_proj.", "ffn_gate."},
    {"feed_forward.up_proj.", "ffn_up."},
    {"feed_forward.down_proj.", "ffn_down."},
};
// The converter writes this norm without the end of its name.
constexpr JoinedTensor kFalconH1Joined[] = {{"ffn_norm.weight", "ffn_norm", 0}};

struct Multipliers {
  double embedding = 1, logits = 1;
  double attention_in = 1, attention_out = 1, key = 1;
  double state_in = 1, state_out = 1;
  std::vector<float> state = {1, 1, 1, 1, 1};  // of gates, values, keys, queries and steps
  std::vector<float> feed_forward = {1, 1};    // of the gate, and of the output
};

Result<Multipliers> ReadMultipliers(const HyperParameters& keys) {
  Multipliers read;
  for (const auto& [name, target] : {std::pair{"embedding_scale", &read.embedding},
                                     {"lm_head_multiplier", &read.logits},
                                     {"attention_in_multiplier", &read.attention_in},
                                     {"attention_out_multiplier", &read.attention_out},
                                     {"key_multiplier", &read.key},
                                     {"ssm_in_multiplier", &read.state_in},
                                     {"ssm_out_multiplier", &read.state_out}}) {
    ASSIGN_OR_RETURN(*target, keys.FloatOr(name, 1, 1e-6, 1e6));
  }
  for (const auto& [name, target] :
       {std::pair{"ssm_multipliers", &read.state}, {"mlp_multipliers", &read.feed_forward}}) {
    if (!keys.Has(name)) continue;
    const size_t wanted = target->size();
    ASSIGN_OR_RETURN(*target, keys.Floats(name));
    if (target->size() != wanted)
      return RefuseParameter("{} has {} numbers, {} are needed", name, target->size(), wanted);
  }
  return read;
}

Status SetScales(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const Multipliers by, ReadMultipliers(source.keys));
  const double gate = static_cast<double>(by.feed_forward[0]);
  config.embedding_scale = by.embedding;
  config.logit_scale = by.logits;
  config.ffn_norm_scale = gate;
  config.residual_scale = static_cast<double>(by.feed_forward[1]) / gate;
  config.value_scale = by.attention_in * by.attention_out / config.residual_scale;
  const double scores = by.attention_in * by.attention_in * by.key;
  if (scores != 1)
    config.attention_scale = scores / std::sqrt(static_cast<double>(config.head_dim));
  const auto of_state = [&](size_t i) { return by.state_in * static_cast<double>(by.state[i]); };
  config.state_scales = {.gate = of_state(0),
                         .value = of_state(1),
                         .key = of_state(2),
                         .query = of_state(3),
                         .rate = of_state(4),
                         .output = by.state_out / config.residual_scale};
  return OkStatus();
}

// The multipliers in the rows of a GGUF's tensors, as the public converter puts them there.
std::vector<RowScale> FalconH1Scales(const HyperParameters& keys, const ModelConfig& config,
                                     std::string_view name) {
  const Multipliers by = ReadMultipliers(keys).value();  // they were read when the model was opened
  const size_t block = name.starts_with("blk.") ? name.find('.', 4) + 1 : 0;
  const std::string_view tensor = name.substr(block);
  const int inner = config.state_heads * config.state_values;
  const int key_rows = config.state_groups * config.state_keys;
  const auto of_state = [&](size_t i) { return by.state_in * static_cast<double>(by.state[i]); };
  if (tensor == "token_embd.weight") return {{config.vocab_size, by.embedding}};
  if (tensor == "output.weight") return {{config.vocab_size, by.logits}};
  if (tensor == "attn_q.weight") return {{config.q_rows(), by.attention_in}};
  if (tensor == "attn_k.weight") return {{config.kv_rows(), by.attention_in * by.key}};
  if (tensor == "attn_v.weight") return {{config.kv_rows(), by.attention_in}};
  if (tensor == "attn_output.weight") return {{config.width, by.attention_out}};
  if (tensor == "ssm_out.weight") return {{config.width, by.state_out}};
  if (tensor == "ffn_gate.weight")
    return {{config.feed_forward, static_cast<double>(by.feed_forward[0])}};
  if (tensor == "ffn_down.weight") return {{config.width, static_cast<double>(by.feed_forward[1])}};
  if (tensor != "ssm_in.weight") return {};
  return {{inner, of_state(0)},
          {inner, of_state(1)},
          {key_rows, of_state(2)},
          {key_rows, of_state(3)},
          {config.state_heads, of_state(4)}};
}

Status DescribeFalconH1(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.recurrence = Recurrence::kMamba2;
  config.recurrent.assign(static_cast<size_t>(config.layers), true);
  config.attention_with_state = true;
  config.state_norm_by_group = true;
  RETURN_IF_ERROR(ReadStateHeads(source, config));
  RETURN_IF_ERROR(ReadMamba2Biases(source, config));
  if (source.form == Form::kGguf) {
    config.state_norm = source.store.Find("blk.0.ssm_norm.weight") != nullptr;
    return OkStatus();
  }
  // Null: mamba_expand times the width.
  ASSIGN_OR_RETURN(const int64_t expand, source.keys.IntOr("mamba_expand", 2, 1, 64));
  ASSIGN_OR_RETURN(const int64_t inner,
                   source.keys.IntOr("mamba_d_ssm", expand * config.width, 1, kMaxWidth));
  RETURN_IF_ERROR(DivideState(source, inner, config));
  for (const char* key : {"mamba_proj_bias", "projectors_bias"}) {
    ASSIGN_OR_RETURN(const bool bias, source.keys.BoolOr(key, false));
    if (bias) return RefuseParameter("{} is true, which is not supported (false is)", key);
  }
  ASSIGN_OR_RETURN(config.state_norm, source.keys.BoolOr("mamba_rms_norm", false));
  ASSIGN_OR_RETURN(const bool before, source.keys.BoolOr("mamba_norm_before_gate", true));
  if (config.state_norm && before)
    return RefuseParameter("mamba_norm_before_gate is true, which is not supported (false is)");
  return SetScales(source, config);
}

}  // namespace

const Family kFalconH1 = {.architecture = "falcon-h1",
                          .model_type = "falcon_h1",
                          .keys = kFalconH1Keys,
                          .config_keys = kFalconH1ConfigKeys,
                          .config_defaults = kFalconH1Defaults,
                          .tensors = kFalconH1Tensors,
                          .gguf_joined = kFalconH1Joined,
                          .state_keys = std::span(kFalconH1Keys).subspan(1),
                          .gguf_scales = &FalconH1Scales,
                          .describe = &DescribeFalconH1};

}  // namespace tutti::model
