// Gemma 3n: as Gemma 4, layers share keys and values and have inputs of their own. In addition each
// row has several residual streams (AltUp), attention has a branch of low rank (LAuReL), and in
// some layers only the greatest gates of a feed-forward count.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kGemma3nKeys[] = {"attention.sliding_window", "final_logit_softcapping"};
// query_pre_attn_scalar has no effect, and the two keys behind it are for training: weights of
// trained models are within that limit.
constexpr std::string_view kGemma3nConfigKeys[] = {
    "query_pre_attn_scalar", "altup_coef_clip",
    "altup_lr_multiplier",   "activation_sparsity_pattern",
    "altup_active_idx",      "altup_correct_scale",
    "altup_num_inputs",      "final_logit_softcapping",
    "hidden_activation",     "hidden_size_per_layer_input",
    "laurel_rank",           "layer_types",
    "num_kv_shared_layers",  "rope_local_base_freq",
    "sliding_window",        "vocab_size_per_layer_input"};
constexpr std::string_view kGemma3nDefaults =
    R"({"hidden_size":2048,"intermediate_size":16384,"num_hidden_layers":35,
        "num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,
        "max_position_embeddings":32768,"rms_norm_eps":1e-6,"rope_theta":1e6,
        "rope_local_base_freq":1e4,"sliding_window":512,"final_logit_softcapping":30.0,
        "altup_num_inputs":4,"num_kv_shared_layers":15,"laurel_rank":64,
        "hidden_size_per_layer_input":256,"vocab_size_per_layer_input":262144})";
constexpr RenamedTensor kGemma3nTensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
    {"per_layer_input_gate.", "inp_gate."},
    {"per_layer_projection.", "proj."},
    {"post_per_layer_input_norm.", "post_norm."},
    {"altup.router_norm.", "altup_router_norm."},
    {"altup.modality_router.", "altup_router."},
    {"altup.prediction_coefs.", "altup_predict_coef."},
    {"altup.correction_coefs.", "altup_correct_coef."},
    {"altup.correct_output_scale", "altup_correct_scale.weight"},
    {"laurel.linear_left.", "laurel_l."},
    {"laurel.linear_right.", "laurel_r."},
    {"laurel.post_laurel_norm.", "laurel_post_norm."},
};

// The number of standard deviations below which a share `part` of a normal distribution lies.
double NormalQuantile(double part) {
  double low = -10, high = 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < part ? low : high) = middle;
  }
  return low;
}

// A folder has the share of gates that become 0, where any do; a GGUF the bound that this gives.
Status ReadGateCutoffs(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kParts = "activation_sparsity_pattern";
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::vector<double> cutoffs;
  if (source.form == Form::kGguf) {
    ASSIGN_OR_RETURN(cutoffs, source.keys.NumbersOfLayers("activation_sparsity_scale",
                                                          config.layers, kNone, 10));
  } else if (source.keys.Has(kParts)) {
    ASSIGN_OR_RETURN(cutoffs, source.keys.NumbersOfLayers(kParts, config.layers, 0, 0.999999));
    for (double& part : cutoffs) part = part == 0 ? kNone : NormalQuantile(part);
  } else {  // as transformers' class
    cutoffs.assign(static_cast<size_t>(config.layers), kNone);
    for (size_t i = 0; config.layers > 10 && i < 10; ++i) cutoffs[i] = NormalQuantile(0.95);
  }
  config.gate_cutoffs.assign(cutoffs.begin(), cutoffs.end());
  return OkStatus();
}

Status ReadStreams(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(ReadInt(keys, "altup.num_inputs", 2, kMaxStreams, &config.streams));
  ASSIGN_OR_RETURN(const int64_t active, keys.IntOr("altup.active_idx", 0, 0, config.streams - 1));
  config.active_stream = static_cast<int>(active);
  ASSIGN_OR_RETURN(const bool scaled, keys.BoolOr("altup_correct_scale", true));
  if (!scaled) return RefuseParameter("altup_correct_scale is false, which is not supported");
  int64_t rank = 0;
  if (source.form == Form::kTransformers) {
    ASSIGN_OR_RETURN(rank, keys.Int("laurel_rank", 1, kMaxWidth));
  } else if (const StoredTensor* left = source.store.Find("blk.0.laurel_l.weight")) {
    rank = left->shape.rows();
  } else {
    return InvalidArgument("model_tensor_missing",
                           "the file does not have the tensor blk.0.laurel_l.weight");
  }
  config.laurel_rank = static_cast<int>(rank);
  if (rank % 32 == 0 && rank <= kMaxWidth) return OkStatus();
  return RefuseParameter("laurel_rank is {}, not a multiple of 32 up to {} as the kernels need",
                         rank, kMaxWidth);
}

Status DescribeGemma3n(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "gelu_pytorch_tanh"));
  config.gate = GateKind::kGeluTanh;
  config.norm_after = config.value_norm = true;
  config.head_norm = HeadNorm::kPerHead;
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  config.attention_scale = 1.0;
  // Published GGUFs have no key for it: their readers assume this one.
  const double usual = source.form == Form::kGguf ? 30.0 : 0.0;
  ASSIGN_OR_RETURN(const double cap, keys.FloatOr("final_logit_softcapping", usual, 0.0, 1e6));
  config.logit_softcap = static_cast<float>(cap);
  RETURN_IF_ERROR(ReadInt(keys, "attention.head_count_kv", 1, kMaxHeads, &config.kv_heads));
  RETURN_IF_ERROR(ReadKindsOfLayers(source, 5, config));
  if (std::find(config.windowed.begin(), config.windowed.end(), true) == config.windowed.end()) {
    config.windowed.clear();
    config.window = 0;
  } else {
    RETURN_IF_ERROR(ReadWindowRope(source, 10000.0, config));
  }
  RETURN_IF_ERROR(ShareKeysAndValues(source, config));
  RETURN_IF_ERROR(ReadFeedForwards(source, config));
  RETURN_IF_ERROR(ReadGateCutoffs(source, config));
  RETURN_IF_ERROR(ReadStreams(source, config));
  RETURN_IF_ERROR(ReadLayerInputs(source, config));
  if (config.layer_inputs != 0) return OkStatus();
  return RefuseParameter("{} is 0, which is not supported",
                         keys.Spelled("embedding_length_per_layer_input"));
}

}  // namespace

const Family kGemma3n = {.architecture = "gemma3n",
                         .model_type = "gemma3n_text",
                         .keys = kGemma3nKeys,
                         .config_keys = kGemma3nConfigKeys,
                         .config_defaults = kGemma3nDefaults,
                         .rope_of_layers = true,
                         .tensors = kGemma3nTensors,
                         .window_list = true,
                         .layers_differ = true,
                         .describe = &DescribeGemma3n};

}  // namespace tutti::model
