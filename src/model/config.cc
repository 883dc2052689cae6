#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/quote.h"
#include "kernels/rows_rope.h"
#include "model/decoder_tensors.h"
#include "model/families/family.h"
#include "model/hyper_parameters.h"
#include "model/recurrence.h"
#include "tensor/dtype.h"

namespace tutti::model {
namespace {

// Heads of latent attention. New converters write them as one kv head of the common row and its
// rotating key, and the heads that are multiplied under names of their own.
Status ReadLatentHeads(Form form, const HyperParameters& metadata, ModelConfig& config) {
  const auto read = [&](std::string_view key, int low, int* out) {
    return ReadInt(metadata, key, low, kMaxWidth, out);
  };
  RETURN_IF_ERROR(read("attention.kv_lora_rank", 1, &config.latent_rank));
  if (metadata.Has("attention.q_lora_rank"))
    RETURN_IF_ERROR(read("attention.q_lora_rank", 1, &config.query_rank));
  int rotating = 0;
  RETURN_IF_ERROR(read("rope.dimension_count", 2, &rotating));
  int kv_heads = config.heads;
  if (metadata.Has("attention.head_count_kv"))
    RETURN_IF_ERROR(read("attention.head_count_kv", 1, &kv_heads));
  const char* value = "attention.value_length";
  if (form == Form::kTransformers) {
    RETURN_IF_ERROR(read("qk_nope_head_dim", 1, &config.head_dim));
    config.head_dim += rotating;
  } else if (metadata.Has("attention.key_length_mla")) {
    int keys = 0, values = 0;
    RETURN_IF_ERROR(read("attention.key_length", 1, &keys));
    RETURN_IF_ERROR(read(value, 1, &values));
    if (kv_heads != 1 || keys != config.latent_rank + rotating || values != config.latent_rank) {
      return RefuseParameter("{} kv heads of {} and {} do not fit a latent row of {} and {} {}",
                             kv_heads, keys, values, config.latent_rank,
                             metadata.Spelled("rope.dimension_count"), rotating);
    }
    kv_heads = config.heads;
    value = "attention.value_length_mla";
    RETURN_IF_ERROR(read("attention.key_length_mla", 1, &config.head_dim));
  } else {
    RETURN_IF_ERROR(read("attention.key_length", 1, &config.head_dim));
  }
  RETURN_IF_ERROR(read(value, 1, &config.value_dim));
  if (kv_heads != config.heads) {
    return RefuseParameter("{} is {}, latent attention has one for each of {} heads",
                           metadata.Spelled("attention.head_count_kv"), kv_heads, config.heads);
  }
  config.kv_heads = config.heads;
  if (rotating >= config.head_dim) {
    return RefuseParameter("{} is {}, not below the {} dimensions of a head",
                           metadata.Spelled("rope.dimension_count"), rotating, config.head_dim);
  }
  if (config.value_dim > config.head_dim) {
    return RefuseParameter("{} is {}, above the {} dimensions of a head's keys",
                           metadata.Spelled(value), config.value_dim, config.head_dim);
  }
  for (const auto& [what, width] :
       {std::pair{metadata.Spelled("attention.kv_lora_rank"), config.latent_rank},
        {metadata.Spelled("attention.q_lora_rank"), config.query_rank},
        {fmt::format("{} x {}", metadata.Spelled("attention.head_count"), metadata.Spelled(value)),
         config.attended_rows()}}) {
    if (width % 32 == 0) continue;
    return RefuseParameter("{} is {}, not a multiple of 32 as the kernels need", what, width);
  }
  return OkStatus();
}

// Attention whose heads of keys and of values have one width.
Status ReadHeads(const Family& family, const HyperParameters& metadata, ModelConfig& config) {
  int64_t kv_heads = config.heads;
  if (constexpr std::string_view kKey = "attention.head_count_kv"; family.layers_differ) {
    constexpr std::string_view kFull = "attention.head_count_kv_full";
    ASSIGN_OR_RETURN(
        const std::vector<int> heads,
        metadata.IntsOfLayers(metadata.Has(kFull) ? kFull : kKey, config.layers, 1, kMaxHeads));
    kv_heads = heads.back();
  } else if (metadata.Has(kKey)) {
    ASSIGN_OR_RETURN(kv_heads, family.kv_heads_by_layer ? metadata.IntOfSome(kKey, 1, kMaxHeads)
                                                        : metadata.Int(kKey, 1, kMaxHeads));
  }
  config.kv_heads = static_cast<int>(kv_heads);
  if (config.kv_heads > config.heads || config.heads % config.kv_heads != 0) {
    return RefuseParameter("{} attention heads cannot share {} kv heads evenly", config.heads,
                           config.kv_heads);
  }
  if (!metadata.Has("attention.key_length") && config.width % config.heads != 0) {
    return RefuseParameter("an embedding of {} does not divide into {} attention heads",
                           config.width, config.heads);
  }
  const int even = config.width / config.heads;
  ASSIGN_OR_RETURN(const int64_t key, metadata.IntOr("attention.key_length", even, 1, kMaxWidth));
  ASSIGN_OR_RETURN(const int64_t value,
                   metadata.IntOr("attention.value_length", key, 1, kMaxWidth));
  if (key != value)
    return RefuseParameter("keys of {} and values of {} per head differ", key, value);
  config.head_dim = static_cast<int>(key);
  return OkStatus();
}

Status ReadShape(const Family& family, Form form, const HyperParameters& metadata,
                 ModelConfig& config) {
  RETURN_IF_ERROR(ReadInt(metadata, "block_count", 1, kMaxLayers, &config.layers));
  RETURN_IF_ERROR(ReadInt(metadata, "context_length", 1, kMaxContext, &config.context_length));
  RETURN_IF_ERROR(ReadInt(metadata, "embedding_length", 1, kMaxWidth, &config.width));
  // A mixture may have no layer of that width.
  const bool of_experts = family.expert_width_key && !metadata.Has("feed_forward_length");
  const char* const width_key = of_experts ? "expert_feed_forward_length" : "feed_forward_length";
  if (family.layers_differ) {  // describe() reads the other layers'
    ASSIGN_OR_RETURN(const std::vector<int> widths,
                     metadata.IntsOfLayers(width_key, config.layers, 1, kMaxFeedForward));
    config.feed_forward = widths.front();
  } else {
    ASSIGN_OR_RETURN(const int64_t feed_forward,
                     family.kv_heads_by_layer ? metadata.IntOfSome(width_key, 1, kMaxFeedForward)
                                              : metadata.Int(width_key, 1, kMaxFeedForward));
    config.feed_forward = static_cast<int>(feed_forward);
  }
  RETURN_IF_ERROR(ReadInt(metadata, "attention.head_count", 1, kMaxHeads, &config.heads));
  RETURN_IF_ERROR(family.latent ? ReadLatentHeads(form, metadata, config)
                                : ReadHeads(family, metadata, config));
  if (int64_t{config.heads} * config.head_dim > kMaxWidth) {
    return RefuseParameter("{} heads of {} exceed a width of {}", config.heads, config.head_dim,
                           kMaxWidth);
  }
  const std::string heads_wide =
      fmt::format("{} x {}", metadata.Spelled("attention.head_count"),
                  family.latent ? fmt::format("{} dimensions", config.head_dim)
                                : metadata.Spelled("attention.key_length"));
  for (const auto& [what, width] : {std::pair{metadata.Spelled("embedding_length"), config.width},
                                    {metadata.Spelled("feed_forward_length"), config.feed_forward},
                                    {heads_wide, config.q_rows()}}) {
    if (width % 32 != 0) {
      return RefuseParameter("{} is {}, not a multiple of 32 as the kernels need", what, width);
    }
  }
  ASSIGN_OR_RETURN(const double eps, metadata.Float(family.norm_eps, 1e-12, 0.1));
  config.norm_eps = static_cast<float>(eps);
  return OkStatus();
}

// A GGUF counts blocks that predict further tokens (multi-token prediction) among its own, behind
// the others. No answer depends on them.
Status LeaveOutPredictingLayers(const HyperParameters& metadata, const TensorStore& store,
                                ModelConfig& config) {
  constexpr std::string_view kKey = "nextn_predict_layers";
  ASSIGN_OR_RETURN(const int64_t count, metadata.IntOr(kKey, 0, 0, kMaxLayers));
  if (count >= config.layers) {
    return RefuseParameter("{} is {}, but {} is {}; there must be more blocks",
                           metadata.Spelled(kKey), count, metadata.Spelled("block_count"),
                           config.layers);
  }
  config.predicting_layers = static_cast<int>(count);
  config.layers -= config.predicting_layers;
  // A file whose block_count does not include them would lose layers of its own.
  for (int i = config.layers; i < config.layers + config.predicting_layers; ++i) {
    bool filled = false, predicts = false;
    for (const StoredTensor& tensor : store.tensors()) {
      const auto in = InLayer(tensor.name);
      if (!in || in->first != i) continue;
      filled = true;
      predicts |= in->second.starts_with("nextn.");
    }
    if (filled && !predicts) {
      return RefuseParameter("{} is {}, but block {} has no tensor of multi-token prediction",
                             metadata.Spelled(kKey), count, i);
    }
  }
  return OkStatus();
}

// The attention factor of a GGUF multiplies YaRN's own; that of a folder replaces it.
Status ReadYarn(const Family& family, Form form, const HyperParameters& metadata,
                ModelConfig& config) {
  kernels::YarnParams yarn;
  ASSIGN_OR_RETURN(yarn.factor, metadata.Float("rope.scaling.factor", 1.0, 1e6));
  ASSIGN_OR_RETURN(const int64_t original, metadata.IntOr("rope.scaling.original_context_length",
                                                          config.context_length, 1, kMaxContext));
  yarn.original_context = static_cast<double>(original);
  ASSIGN_OR_RETURN(yarn.beta_fast, metadata.FloatOr("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6));
  ASSIGN_OR_RETURN(yarn.beta_slow, metadata.FloatOr("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6));
  const bool whole = form == Form::kTransformers;
  ASSIGN_OR_RETURN(yarn.truncate,
                   metadata.BoolOr("rope.scaling.truncate", whole || family.yarn_truncates));
  const auto grown = [&](double by) { return 0.1 * by * std::log(yarn.factor) + 1.0; };
  double magnitude = grown(1);
  const char* const divisor =
      whole ? "rope.scaling.mscale_all_dim" : "rope.scaling.yarn_log_multiplier";
  ASSIGN_OR_RETURN(double divided, metadata.FloatOr(divisor, 0, 0, 1e3));
  double otherwise = whole ? 0 : 1;
  if (family.latent && !whole && divided != 0) {
    divided *= 10;  // converters write a tenth of it for this attention, and no mscale: it is equal
    otherwise = divided;
  }
  ASSIGN_OR_RETURN(const double by, metadata.FloatOr("rope.scaling.mscale", otherwise, 0, 1e3));
  if (by != 0 && divided != 0) magnitude = grown(by) / grown(divided);
  if (family.latent && divided != 0) {
    config.attention_scale =
        grown(divided) * grown(divided) / std::sqrt(static_cast<double>(config.head_dim));
  }
  ASSIGN_OR_RETURN(const double stated, metadata.FloatOr("rope.scaling.attn_factor",
                                                         whole ? magnitude : 1.0, 1e-3, 1e3));
  config.rope_yarn = true;
  config.rope_magnitude = whole ? stated : stated * magnitude;
  config.rope_freq_factors =
      kernels::YarnFreqFactors(config.rope_dims, config.rope_freq_base, yarn);
  return OkStatus();
}

// One list of longrope's factors; empty if a GGUF does not have it.
Result<std::vector<float>> ReadLongFactors(Form form, const HyperParameters& metadata,
                                           const TensorStore& store, std::string_view length,
                                           const ModelConfig& config) {
  std::vector<float> factors;
  if (form == Form::kTransformers) {
    ASSIGN_OR_RETURN(factors, metadata.Floats(fmt::format("rope.scaling.{}_factor", length)));
  } else {
    const std::string name = fmt::format("rope_factors_{}.weight", length);
    const StoredTensor* tensor = store.Find(name);
    if (tensor == nullptr) return factors;
    ASSIGN_OR_RETURN(factors, store.ReadFloats(*tensor));
    for (const float each : factors) {
      if (each >= 1e-6f && each <= 1e6f) continue;
      return RefuseParameter("{} holds the factor {}", name, each);
    }
  }
  if (factors.size() == static_cast<size_t>(config.rope_dims / 2)) return factors;
  return RefuseParameter("longrope has {} factors, {} dimensions rotate", factors.size(),
                         config.rope_dims);
}

// LongRoPE divides frequencies by one list of factors in texts up to the original context length
// and by another list in longer texts. A decoder uses one list for all texts, chosen by its
// context: otherwise the whole cache of a text that grows beyond the original length would have to
// be recomputed. That length is the default context.
Status ReadLongRope(Form form, const HyperParameters& metadata, const TensorStore& store,
                    ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t original, metadata.IntOr("rope.scaling.original_context_length",
                                                          config.context_length, 2, kMaxContext));
  const double stretch = static_cast<double>(config.context_length) / static_cast<double>(original);
  ASSIGN_OR_RETURN(const double factor,
                   metadata.FloatOr("rope.scaling.factor", std::max(stretch, 1.0), 1.0, 1e6));
  const double magnitude =
      factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original))) : 1.0;
  ASSIGN_OR_RETURN(config.rope_magnitude,
                   metadata.FloatOr("rope.scaling.attn_factor", magnitude, 1e-3, 1e3));
  ASSIGN_OR_RETURN(config.rope_freq_factors,
                   ReadLongFactors(form, metadata, store, "short", config));
  if (config.rope_freq_factors.empty())
    return RefuseParameter("the file does not have the tensor rope_factors_short.weight");
  config.rope_long = true;
  if (config.context_length <= original) return OkStatus();
  if (form == Form::kGguf || metadata.Has("rope.scaling.long_factor")) {
    ASSIGN_OR_RETURN(config.rope_long_factors,
                     ReadLongFactors(form, metadata, store, "long", config));
  }
  if (!config.rope_long_factors.empty()) config.long_context = config.context_length;
  config.context_length = static_cast<int>(original);
  return OkStatus();
}

// A part of a head's pairs turns, as fast as if all did, and the others do not turn: in pairs of a
// half each, so that those that turn are not at the beginning. A GGUF has such factors in a tensor.
Status ReadProportionalRope(const HyperParameters& metadata, ModelConfig& config) {
  constexpr float kStill = 1e30F;  // as the public converters write it
  ASSIGN_OR_RETURN(const double part, metadata.FloatOr("rope.partial", 1.0, 0.0, 1.0));
  ASSIGN_OR_RETURN(const double factor, metadata.FloatOr("rope.scaling.factor", 1.0, 1e-3, 1e6));
  const auto pairs = static_cast<size_t>(config.rope_dims / 2);
  const auto turning = static_cast<size_t>(part * config.head_dim / 2);
  config.rope_freq_factors.assign(pairs, kStill);
  std::fill_n(config.rope_freq_factors.begin(), std::min(turning, pairs),
              static_cast<float>(factor));
  return OkStatus();
}

Status ReadRopeScaling(const Family& family, Form form, const HyperParameters& metadata,
                       const TensorStore& store, ModelConfig& config) {
  constexpr double kMaxFactor = 1e6;
  ASSIGN_OR_RETURN(std::string type, metadata.StringOr("rope.scaling.type", "none"));
  const bool folder = form == Form::kTransformers;
  if (folder && family.layers_differ && type == "proportional")
    return ReadProportionalRope(metadata, config);
  // transformers maps these names in Phi's folders to longrope too.
  if (folder && family.rope_long && (type == "su" || type == "yarn")) type = "longrope";
  if (family.rope_long &&
      (type == "longrope" || (!folder && store.Find("rope_factors_short.weight") != nullptr)))
    return ReadLongRope(form, metadata, store, config);
  // Dynamic scaling changes nothing within the context, which no text exceeds.
  if (folder && type == "dynamic") type = "none";
  if (type == "none" || type == "default") {
    ASSIGN_OR_RETURN(config.rope_linear_factor,
                     metadata.FloatOr("rope.scale_linear", 1.0, 1e-3, kMaxFactor));
  } else if (type == "linear") {
    ASSIGN_OR_RETURN(config.rope_linear_factor,
                     metadata.Float("rope.scaling.factor", 1e-3, kMaxFactor));
  } else if (type == "llama3") {
    ASSIGN_OR_RETURN(const double factor, metadata.Float("rope.scaling.factor", 1.0, kMaxFactor));
    ASSIGN_OR_RETURN(const double low,
                     metadata.FloatOr("rope.scaling.low_freq_factor", 1.0, 1e-3, kMaxFactor));
    ASSIGN_OR_RETURN(const double high,
                     metadata.FloatOr("rope.scaling.high_freq_factor", 4.0, 1e-3, kMaxFactor));
    ASSIGN_OR_RETURN(
        const int64_t original,
        metadata.IntOr("rope.scaling.original_context_length",
                       form == Form::kGguf ? 8192 : config.context_length, 1, kMaxContext));
    if (high < low) {
      return RefuseParameter("{} {} is below {} {}",
                             metadata.Spelled("rope.scaling.high_freq_factor"), high,
                             metadata.Spelled("rope.scaling.low_freq_factor"), low);
    }
    config.rope_freq_factors = kernels::Llama3FreqFactors(
        config.rope_dims, config.rope_freq_base, factor, low, high, static_cast<double>(original));
  } else if (type == "yarn") {
    return ReadYarn(family, form, metadata, config);
  } else {
    return RefuseParameter(
        "rope scaling of type {} is not supported (none, linear, dynamic, llama3, yarn are, and "
        "longrope in phi3)",
        Quote(type));
  }
  return OkStatus();
}

// The frequency divisors that converters of Llama 3.1 and later store as a tensor; they win over
// the keys.
Status ReadRopeTensor(const TensorStore& store, ModelConfig& config) {
  const StoredTensor* info = store.Find("rope_freqs.weight");
  if (info == nullptr) return OkStatus();
  if (info->dtype != tensor::DType::kF32 || info->shape != tensor::Shape{config.rope_dims / 2}) {
    return InvalidArgument(
        store.shape_code(),
        fmt::format("rope_freqs.weight is {} {}, expected F32 {{{}}}", tensor::Name(info->dtype),
                    info->shape.ToString(), config.rope_dims / 2));
  }
  ASSIGN_OR_RETURN(std::vector<float> factors, ReadFinite(store, *info));
  for (const float factor : factors) {
    if (!(factor >= 1e-6f)) return RefuseParameter("rope_freqs.weight holds the factor {}", factor);
  }
  config.rope_freq_factors = std::move(factors);
  return OkStatus();
}

Status ReadRope(const Family& family, Form form, const HyperParameters& metadata,
                const TensorStore& store, ModelConfig& config) {
  // A folder states the rotating part of a head, a GGUF the number of rotating dimensions.
  ASSIGN_OR_RETURN(double part, metadata.FloatOr("rope.partial", 1.0, 0.0, 1.0));
  ASSIGN_OR_RETURN(const std::string type, metadata.StringOr("rope.scaling.type", "none"));
  if (family.layers_differ && type == "proportional") part = 1.0;  // ReadProportionalRope
  if (part != 1.0 && !family.rope_partial) {
    return RefuseParameter("{} of {} is not supported in {}", metadata.Spelled("rope.partial"),
                           part, family.model_type);
  }
  const int rotating = static_cast<int>(config.head_dim * part);
  ASSIGN_OR_RETURN(const int64_t dims,
                   metadata.IntOr("rope.dimension_count", rotating, 0, config.head_dim));
  config.rope_dims = static_cast<int>(dims);
  if (config.rope_dims % 2 != 0) {
    return RefuseParameter("{} is {}, an odd number", metadata.Spelled("rope.dimension_count"),
                           config.rope_dims);
  }
  config.rope_mode = config.rope_dims == 0 ? kernels::RopeMode::kNone
                     : form == Form::kGguf ? family.gguf_rope
                                           : family.folder_rope;
  ASSIGN_OR_RETURN(config.rope_freq_base, metadata.FloatOr("rope.freq_base", 10000.0, 1.0, 1e12));
  return ReadRopeScaling(family, form, metadata, store, config);
}

// Whether the key has a meaning in the family.
bool Understands(const Family& family, std::string_view key) {
  return std::find(family.keys.begin(), family.keys.end(), key) != family.keys.end();
}

// Features that other families have: ignoring them would compute wrong answers.
Status RefuseUnsupported(const Family& family, const HyperParameters& metadata) {
  for (const char* key : {"expert_count", "expert_used_count"}) {
    if (Understands(family, key)) continue;
    ASSIGN_OR_RETURN(const int64_t count,
                     metadata.IntOr(key, 0, 0, std::numeric_limits<int32_t>::max()));
    if (count != 0)
      return RefuseParameter("{} is {}: mixture of experts is not supported in {}",
                             metadata.Spelled(key), count, family.architecture);
  }
  const bool both_ways = Understands(family, "attention.causal");
  ASSIGN_OR_RETURN(const bool causal, metadata.BoolOr("attention.causal", !both_ways));
  if (causal == both_ways) {
    return RefuseParameter("attention that is {}causal is not supported in {}",
                           causal ? "" : "not ", family.architecture);
  }
  ASSIGN_OR_RETURN(const bool bias, metadata.BoolOr("mlp_bias", false));
  if (bias && !Understands(family, "mlp_bias"))
    return RefuseParameter("mlp_bias is true, which is not supported (false is)");
  for (const auto& [key, neutral] : {std::pair<const char*, double>{"attn_logit_softcapping", 0.0},
                                     {"final_logit_softcapping", 0.0},
                                     {"attention.clamp_kqv", 0.0},
                                     {"logit_scale", 1.0},
                                     {"residual_scale", 1.0},
                                     {"embedding_scale", 1.0},
                                     {"expert_shared_count", 0.0},
                                     {"attention.scale", 0.0}}) {
    if (Understands(family, key) || !metadata.Has(key)) continue;
    const double most = std::numeric_limits<double>::max();
    ASSIGN_OR_RETURN(const double value, metadata.FloatOr(key, neutral, -most, most));
    if (value != neutral)
      return RefuseParameter("{} of {} is not supported in {}", metadata.Spelled(key), value,
                             family.architecture);
  }
  return OkStatus();
}

// Refuses a GGUF that has a sliding window shorter than its context though its family has none.
Status RefuseWindow(const Family& family, const HyperParameters& metadata,
                    const ModelConfig& config) {
  constexpr std::string_view kKey = "attention.sliding_window";
  if (Understands(family, kKey) || !metadata.Has(kKey)) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t window, metadata.IntOr(kKey, 0, 0, kMaxContext));
  if (window == 0 || window >= config.context_length) return OkStatus();
  return RefuseParameter("sliding-window attention ({} tokens) is not supported in {}", window,
                         family.architecture);
}

Status ReadVocabulary(const HyperParameters& metadata, const TensorStore& store,
                      ModelConfig& config) {
  const StoredTensor* embedding = store.Find("token_embd.weight");
  if (embedding == nullptr) {
    return InvalidArgument("model_tensor_missing",
                           "the file does not have the tensor token_embd.weight");
  }
  const int64_t rows = embedding->shape.rows();
  if (rows < 1 || rows > kMaxVocabulary) {
    return RefuseParameter("a vocabulary of {} tokens is outside 1..{}", rows, kMaxVocabulary);
  }
  config.vocab_size = static_cast<int>(rows);
  ASSIGN_OR_RETURN(const int64_t stated, metadata.IntOr("vocab_size", rows, 1, kMaxVocabulary));
  if (stated != rows) {
    return RefuseParameter("{} is {}, token_embd.weight has {} rows",
                           metadata.Spelled("vocab_size"), stated, rows);
  }
  const bool alone = store.Find("output.weight") == nullptr;
  ASSIGN_OR_RETURN(config.tied_head, metadata.BoolOr("tie_word_embeddings", alone));
  return OkStatus();
}

// Traits that the forward pass (decoder.cc) does not compute together; no known model has them.
// nullptr if there are none.
const char* TraitFault(const ModelConfig& config) {
  const bool experts = config.experts != 0;
  const bool recurrent = config.recurrence != Recurrence::kNone;
  if (config.layer_norm && (experts || recurrent))
    return "LayerNorm in a model with experts or a recurrence";
  if (config.layer_norm && config.norm_after) return "LayerNorm after a part of a layer";
  if (config.parallel && (experts || recurrent))
    return "parallel parts in a model with experts or a recurrence";
  if (!config.gated && experts && (config.gate == GateKind::kXielu || config.expert_bias))
    return "experts without a gate that have xIELU or biases";
  if (config.gated && config.gate == GateKind::kRelu2 && !config.inner_norms)
    return "a gate with squared ReLU";
  if (config.gated && config.gate == GateKind::kXielu) return "a gate with xIELU";
  if (!config.gated && config.gate == GateKind::kSilu) return "SiLU without a gate";
  if (config.gate == GateKind::kSiluClamped && !experts) return "a clamped SwiGLU without experts";
  if (config.inner_norms && (experts || recurrent || config.parallel || config.latent_rank != 0))
    return "norms inside of parts with experts, a recurrence, parallel parts or latent attention";
  if (config.window_aligned && config.both_ways) return "chunks that are seen both ways";
  return nullptr;
}

}  // namespace

kernels::AttentionShape ModelConfig::attention_shape(bool of_window) const {
  kernels::AttentionShape shape{};
  shape.heads = heads;
  shape.kv_heads = of_window && window_kv_heads != 0 ? window_kv_heads : kv_heads;
  shape.head_dim = of_window && window_head_dim != 0 ? window_head_dim : head_dim;
  shape.scale = static_cast<float>(attention_scale != 0
                                       ? attention_scale
                                       : 1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  shape.softcap = attention_softcap;
  shape.rope_mode = rope_mode;
  shape.rope_dims = of_window && window_head_dim != 0 ? window_head_dim : rope_dims;
  return shape;
}

Result<ModelConfig> ReadModelConfig(const Family& family, Form form, const HyperParameters& keys,
                                    const TensorStore& store) {
  ModelConfig config;
  config.architecture = family.architecture;
  RETURN_IF_ERROR(RefuseUnsupported(family, keys));
  RETURN_IF_ERROR(ReadShape(family, form, keys, config));
  if (form == Form::kGguf) RETURN_IF_ERROR(LeaveOutPredictingLayers(keys, store, config));
  RETURN_IF_ERROR(RefuseWindow(family, keys, config));
  RETURN_IF_ERROR(ReadRope(family, form, keys, store, config));
  RETURN_IF_ERROR(family.describe({form, keys, store}, config));
  if (config.recurrent_layers() == 0) {  // a hybrid's type whose layers are all of attention
    config.recurrence = Recurrence::kNone;
    config.recurrent.clear();
  }
  if (config.experts != 0 && config.expert_feed_forward == 0)
    config.expert_feed_forward = config.feed_forward;
  for (const int wide : {config.expert_feed_forward, config.shared_feed_forward}) {
    if (wide % 32 == 0) continue;
    return RefuseParameter("experts of {} are not a multiple of 32, as the kernels need", wide);
  }
  for (const bool of_window : {false, true}) {
    const kernels::AttentionShape shape = config.attention_shape(of_window);
    if (const char* fault = kernels::AttentionShapeFault(shape); fault != nullptr) {
      return RefuseParameter("{} heads, {} kv heads of {} dimensions: {}", shape.heads,
                             shape.kv_heads, shape.head_dim, fault);
    }
  }
  if (const char* fault = TraitFault(config); fault != nullptr)
    return RefuseParameter("this {} is not supported: {}", config.architecture, fault);
  if (const char* fault = RecurrenceFault(config); fault != nullptr)
    return RefuseParameter("the recurrent layers of this {} cannot run: {}", config.architecture,
                           fault);
  RETURN_IF_ERROR(ReadVocabulary(keys, store, config));
  RETURN_IF_ERROR(ReadRopeTensor(store, config));
  return config;
}

Result<ModelConfig> ReadModelConfig(const gguf::File& file) {
  const GgufParameters general(file.header(), "general.");
  ASSIGN_OR_RETURN(const std::string architecture, general.StringOr("architecture", ""));
  const Family* family = FamilyOfArchitecture(architecture);
  if (family == nullptr) {
    const auto kind = general.StringOr("type", "model");
    if (kind.ok() && *kind != "model") {
      return RefuseParameter("the file is of type {}, not a model: give the model's own file",
                             Quote(*kind));
    }
    return RefuseParameter(architecture.empty()
                               ? std::string("the file does not have the key general.architecture")
                               : fmt::format("the architecture {} is not supported ({} are)",
                                             Quote(architecture), KnownArchitectures()));
  }
  const GgufParameters keys(file.header(), architecture + ".");
  ASSIGN_OR_RETURN(ModelConfig config,
                   ReadModelConfig(*family, Form::kGguf, keys, *MakeTensorStore(file)));
  ASSIGN_OR_RETURN(config.name, general.StringOr("name", ""));
  return config;
}

}  // namespace tutti::model
