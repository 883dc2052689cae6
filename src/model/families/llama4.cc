// Llama 4 (its text part), and MobileLLM-R1, which has its form without experts. Layers that rotate
// attend within chunks of positions, and normalise queries and keys without weights behind the
// rotation; every fourth layer does not rotate, sees all tokens, and its queries grow with the
// position. Experts are chosen by logits; the sigmoid of a logit multiplies what its expert reads.
// Adjacent dimensions rotate together in folders and GGUFs.
#include <algorithm>

#include "base/quote.h"
#include "model/families/family.h"

namespace tutti::model {
namespace {

// The values of published models. Readers of GGUFs assume all of them: converters write no keys.
constexpr int kLlama4Unrotated = 4, kLlama4Chunk = 8192, kLlama4Period = 8192;
constexpr double kLlama4Growth = 0.1;
constexpr int kExpertsWithoutNorm = 128;  // models with so many do not normalise queries and keys

constexpr std::string_view kLlama4Keys[] = {"attention.sliding_window", "expert_count",
                                            "expert_used_count"};
constexpr std::string_view kLlama4ConfigKeys[] = {"attention_chunk_size",
                                                  "attn_scale",
                                                  "attn_temperature_tuning",
                                                  "floor_scale",
                                                  "for_llm_compressor",
                                                  "interleave_moe_layer_step",
                                                  "intermediate_size_mlp",
                                                  "layer_types",
                                                  "moe_layers",
                                                  "no_rope_layer_interval",
                                                  "no_rope_layers",
                                                  "num_experts_per_tok",
                                                  "num_local_experts",
                                                  "use_qk_norm"};
constexpr std::string_view kLlama4Defaults =
    R"({"hidden_size":5120,"intermediate_size":8192,"intermediate_size_mlp":16384,
        "num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,
        "max_position_embeddings":131072,"rms_norm_eps":1e-5,"rope_theta":5e5,
        "num_experts_per_tok":1,"num_local_experts":16,"attention_chunk_size":8192})";
constexpr RenamedTensor kLlama4Tensors[] = {
    {"feed_forward.router.", "ffn_gate_inp."},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight"},
    {"feed_forward.shared_expert.gate_proj.", "ffn_gate_shexp."},
    {"feed_forward.shared_expert.up_proj.", "ffn_up_shexp."},
    {"feed_forward.shared_expert.down_proj.", "ffn_down_shexp."},
    {"feed_forward.gate_proj.", "ffn_gate."},
    {"feed_forward.up_proj.", "ffn_up."},
    {"feed_forward.down_proj.", "ffn_down."},
};

// Sets the layers that do not rotate. An empty list in a folder counts as none.
Status ReadRotation(const FamilySource& source, bool chunked, ModelConfig& config) {
  constexpr std::string_view kListed = "rope.layers";
  const auto numbers = source.keys.Floats(kListed);
  const bool empty = numbers.ok() && numbers->empty();
  if (source.keys.Has(kListed) && !empty) {
    ASSIGN_OR_RETURN(config.unrotated, source.keys.Flags(kListed, config.layers));
    config.unrotated.flip();
    return OkStatus();
  }
  if (source.form == Form::kGguf && !chunked) return OkStatus();  // all rotate
  ASSIGN_OR_RETURN(const int64_t every,
                   source.keys.IntOr("no_rope_layer_interval", kLlama4Unrotated, 1, kMaxLayers));
  for (int i = 0; i < config.layers; ++i) config.unrotated.push_back((i + 1) % every == 0);
  return OkStatus();
}

// Sets the layers that attend within chunks: in a folder those of its list, or those that rotate.
Status ReadChunkedLayers(const FamilySource& source, ModelConfig& config) {
  constexpr std::string_view kListed = "attention.sliding_window_pattern";
  for (int i = 0; i < config.layers; ++i) {
    config.windowed.push_back(source.form == Form::kGguf ? (i + 1) % kLlama4Unrotated != 0
                                                         : config.rotates(i));
  }
  if (source.form == Form::kGguf) return ReadWindowedLayers(source, config);
  if (!source.keys.Has(kListed)) return OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> kinds, source.keys.Kinds(kListed, config.layers));
  for (size_t i = 0; i < kinds.size(); ++i) {
    config.windowed[i] = kinds[i] == "chunked_attention";
    if (config.windowed[i] || kinds[i] == "full_attention") continue;
    return RefuseParameter(
        "{} names {} for layer {}, which is not supported (full_attention and "
        "chunked_attention are)",
        source.keys.Spelled(kListed), Quote(kinds[i]), i);
  }
  return OkStatus();
}

Status ReadChunks(const FamilySource& source, ModelConfig& config) {
  // A GGUF of a model without chunks has a window of 0.
  constexpr std::string_view kWindow = "attention.sliding_window", kSize = "attention.chunk_size";
  const bool folder = source.form == Form::kTransformers;
  const std::string_view key = !folder && source.keys.Has(kWindow) ? kWindow : kSize;
  ASSIGN_OR_RETURN(const int64_t chunk,
                   source.keys.IntOr(key, folder ? 0 : kLlama4Chunk, folder ? 1 : 0, kMaxContext));
  RETURN_IF_ERROR(ReadRotation(source, chunk != 0, config));
  RETURN_IF_ERROR(ReadChunkedLayers(source, config));
  const auto& layers = config.windowed;
  if (std::find(layers.begin(), layers.end(), true) == layers.end() || (!folder && chunk == 0)) {
    config.windowed.clear();
    return OkStatus();
  }
  if (chunk == 0) return RefuseParameter("{} is missing", source.keys.Spelled(kSize));
  config.window = static_cast<int>(std::min<int64_t>(chunk, config.max_context()));
  config.window_aligned = true;
  return OkStatus();
}

// The first configurations have a number for whether queries grow.
Result<bool> QueriesGrow(const HyperParameters& keys) {
  constexpr std::string_view kKey = "attn_temperature_tuning";
  const auto flag = keys.BoolOr(kKey, true);
  if (flag.ok()) return *flag;
  ASSIGN_OR_RETURN(const int64_t number, keys.Int(kKey, 0, kMaxContext));
  return number != 0;
}

Status ReadGrowth(const FamilySource& source, ModelConfig& config) {
  const HyperParameters& keys = source.keys;
  const bool folder = source.form == Form::kTransformers;
  ASSIGN_OR_RETURN(const bool grow, folder ? QueriesGrow(keys) : Result<bool>(config.window != 0));
  ASSIGN_OR_RETURN(config.query_growth,
                   keys.FloatOr(folder ? "attn_scale" : "attention.temperature_scale",
                                grow ? kLlama4Growth : 0, 0, 1e3));
  if (!grow && folder) config.query_growth = 0;
  ASSIGN_OR_RETURN(const int64_t period,
                   keys.IntOr(folder ? "floor_scale" : "attention.temperature_length",
                              kLlama4Period, 1, kMaxContext));
  config.query_period = static_cast<int>(period);
  config.query_offset = 1;
  config.growth_unrotated = true;
  return OkStatus();
}

// The layers with experts: in a GGUF those with a router. A model may have none.
Status ReadMixture(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(ReadExperts(source, config));
  if (config.experts == 0) return OkStatus();
  std::vector<bool> mixed(static_cast<size_t>(config.layers));
  if (source.form == Form::kGguf) {
    for (int i = 0; i < config.layers; ++i)
      mixed[static_cast<size_t>(i)] =
          source.store.Find(fmt::format("blk.{}.ffn_gate_inp.weight", i)) != nullptr;
  } else if (source.keys.Has("moe_layers")) {
    ASSIGN_OR_RETURN(mixed, source.keys.Listed("moe_layers", config.layers));
  } else {
    ASSIGN_OR_RETURN(const int64_t step,
                     source.keys.IntOr("interleave_moe_layer_step", 1, 1, kMaxLayers));
    for (int i = 0; i < config.layers; ++i) mixed[static_cast<size_t>(i)] = (i + 1) % step == 0;
  }
  if (std::find(mixed.begin(), mixed.end(), true) == mixed.end()) {
    config.experts = config.experts_used = 0;
    return OkStatus();
  }
  const bool all = std::find(mixed.begin(), mixed.end(), false) == mixed.end();
  mixed.flip();
  if (!all) config.without_experts = std::move(mixed);
  RETURN_IF_ERROR(ReadInt(
      source.keys, source.form == Form::kGguf ? "expert_feed_forward_length" : "intermediate_size",
      1, kMaxFeedForward, &config.expert_feed_forward));
  config.shared_feed_forward = config.expert_feed_forward;
  config.router_score = RouterScore::kSigmoid;
  config.expert_weights_sum_to_1 = false;
  config.expert_weights_on_inputs = true;
  return OkStatus();
}

Status DescribeLlama4(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadChunks(source, config));
  RETURN_IF_ERROR(ReadGrowth(source, config));
  RETURN_IF_ERROR(ReadMixture(source, config));
  const bool gguf = source.form == Form::kGguf;
  ASSIGN_OR_RETURN(const bool norm,
                   source.keys.BoolOr(gguf ? "attention.qk_norm" : "use_qk_norm",
                                      !gguf || config.experts != kExpertsWithoutNorm));
  config.norm_rotated = norm;
  if (norm) config.head_norm = HeadNorm::kUnweighted;
  return OkStatus();
}

}  // namespace

const Family kLlama4 = {.architecture = "llama4",
                        .model_type = "llama4_text",
                        .gguf_rope = kernels::RopeMode::kAdjacent,
                        .folder_rope = kernels::RopeMode::kAdjacent,
                        .keys = kLlama4Keys,
                        .config_keys = kLlama4ConfigKeys,
                        .config_defaults = kLlama4Defaults,
                        .tensors = kLlama4Tensors,
                        .expert_width_key = true,
                        .window_every = kLlama4Unrotated,
                        .chunked = true,
                        .unrotated_every = kLlama4Unrotated,
                        .transposed_experts = true,
                        .describe = &DescribeLlama4};

}  // namespace tutti::model
