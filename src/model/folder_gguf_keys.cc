#include "model/folder_gguf_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "model/families/family.h"
#include "tokenizer/huggingface.h"

namespace tutti::model {
namespace {

constexpr std::string_view kTokenizerPrefix = "tokenizer.ggml.";

// The pairs of the architecture.
class KeyWriter {
 public:
  KeyWriter(const ModelConfig& config, const HyperParameters& keys, gguf::HeaderWriter& out)
      : config_(config),
        family_(*FamilyOfArchitecture(config.architecture)),
        keys_(keys),
        out_(out) {}

  Status Write() {
    PutInt("block_count", config_.layers);
    PutInt("context_length", config_.max_context());
    PutInt("embedding_length", config_.width);
    RETURN_IF_ERROR(PutFeedForward());
    PutInt("attention.head_count", config_.heads);
    PutKvHeads();
    PutInt("attention.key_length", config_.head_dim);
    PutInt("attention.value_length", config_.value_width());
    if (config_.latent_rank != 0) PutLatent();
    if (family_.layers_differ) PutLayerShapes();
    PutFloat(family_.norm_eps, static_cast<double>(config_.norm_eps));
    PutInt("vocab_size", config_.vocab_size);
    // If rows see each other both ways, the key counts the tokens of both sides.
    if (config_.window != 0 || family_.chunked)
      PutInt("attention.sliding_window",
             config_.both_ways ? 2 * (config_.window - 1) : config_.window);
    if (config_.experts != 0) {
      PutExperts();
      RETURN_IF_ERROR(CopyInt("leading_dense_block_count"));
      RETURN_IF_ERROR(CopyInt("interleave_moe_layer_step"));
    }
    if (family_.chunked) PutChunkedAttention();
    if (config_.inner_norms)
      out_.String(Named("hidden_activation"), config_.gate == GateKind::kRelu2 ? "relu2" : "silu");
    if (config_.output_bias) out_.Bool(Named("attention.bias"), true);
    if (family_.gguf_tiled_heads) PutRopeSections();
    for (const std::string_view key : family_.state_keys) RETURN_IF_ERROR(CopyInt(key));
    if (config_.state_heads != 0)
      PutInt("ssm.inner_size", config_.state_heads * config_.state_values);
    if (family_.recurrent_interval) PutRecurrentLayers();
    if (!config_.xielu.empty()) PutXielu();
    RETURN_IF_ERROR(PutFamilyKeys());
    // Readers of the hybrids take it for whether they rotate.
    if (family_.kv_heads_by_layer && config_.rope_mode != kernels::RopeMode::kNone)
      out_.Bool(Named("rope.scaling.finetuned"), true);
    return PutRope();
  }

 private:
  std::string Named(std::string_view key) const {
    return fmt::format("{}.{}", config_.architecture, key);
  }
  void PutInt(std::string_view key, int value) {
    out_.U32(Named(key), static_cast<uint32_t>(value));
  }
  void PutFloat(std::string_view key, double value) {
    out_.F32(Named(key), static_cast<float>(value));
  }
  Status CopyFloat(std::string_view key) {
    if (!keys_.Has(key)) return OkStatus();
    ASSIGN_OR_RETURN(const double value, keys_.Float(key, -1e12, 1e12));
    PutFloat(key, value);
    return OkStatus();
  }
  Status CopyInt(std::string_view key) {
    if (!keys_.Has(key)) return OkStatus();
    ASSIGN_OR_RETURN(const int64_t value, keys_.Int(key, 0, kMaxContext));
    PutInt(key, static_cast<int>(value));
    return OkStatus();
  }

  // Keys of layers with a window, and of what layers share or have of their own.
  void PutLayerShapes() {
    int shared = 0;
    for (int i = 0; i < config_.layers; ++i) shared += !config_.owns_kv(i);
    PutInt("attention.shared_kv_layers", shared);
    PutInt("embedding_length_per_layer_input", config_.layer_inputs);
    if (config_.streams != 0) {
      PutInt("altup.num_inputs", config_.streams);
      PutInt("altup.active_idx", config_.active_stream);
      out_.Floats(Named("activation_sparsity_scale"), config_.gate_cutoffs);
      constexpr std::string_view kCap = "final_logit_softcapping";  // none is not the default there
      if (!keys_.Has(kCap)) PutFloat(kCap, static_cast<double>(config_.logit_softcap));
    }
    if (config_.window_head_dim == 0) return;
    for (const char* key :
         {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"})
      PutInt(key, config_.window_head_dim);
  }

  Status PutFeedForward() {
    if (!config_.feed_forwards.empty()) {
      out_.Int32s(Named("feed_forward_length"), config_.feed_forwards);
      return OkStatus();
    }
    if (config_.feed_forward_alone.empty()) {
      PutInt("feed_forward_length", config_.feed_forward);
      return OkStatus();
    }
    std::vector<int32_t> widths;
    int32_t first = 0;
    for (int i = 0; i < config_.layers; ++i) {
      const int32_t width = !config_.has_feed_forward(i) ? 0
                            : config_.has_experts(i)     ? config_.expert_feed_forward
                                                         : config_.feed_forward;
      if (width != 0 && first != 0 && width != first) {
        return RefuseParameter("a GGUF of {} has feed-forwards of one width, not of {} and {}",
                               config_.architecture, first, width);
      }
      first = width != 0 ? width : first;
      widths.push_back(width);
    }
    out_.Int32s(Named("feed_forward_length"), widths);
    return OkStatus();
  }

  void PutKvHeads() {
    const bool listed = family_.kv_heads_by_layer || config_.window_kv_heads != 0;
    if (!listed) return PutInt("attention.head_count_kv", config_.kv_heads);
    std::vector<int32_t> heads;
    for (int i = 0; i < config_.layers; ++i)
      heads.push_back(config_.has_attention(i) ? config_.kv_heads_of(i) : 0);
    out_.Int32s(Named("attention.head_count_kv"), heads);
  }

  // Other programs need it: how many of the rotating pairs turn by time, height and width.
  void PutRopeSections() {
    const int pairs = config_.rope_dims / 2;
    const std::vector<int32_t> sections = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    out_.Int32s(Named("rope.dimension_sections"), sections);
  }

  void PutRecurrentLayers() {
    std::vector<bool> recurrent;
    for (int i = 0; i < config_.layers; ++i) recurrent.push_back(config_.is_recurrent(i));
    const auto first = std::find(recurrent.begin(), recurrent.end(), false) - recurrent.begin();
    const int every = static_cast<int>(first) + 1;
    bool regular = true;
    for (int i = 0; i < config_.layers; ++i)
      regular &= recurrent[static_cast<size_t>(i)] == ((i + 1) % every != 0);
    if (regular) return PutInt("full_attention_interval", every);
    out_.Bools(Named("attention.recurrent_layers"), recurrent);
  }

  // These keys have no architecture before them.
  void PutXielu() {
    const std::pair<const char*, float Xielu::*> parameters[] = {
        {"xielu.alpha_p", &Xielu::alpha_positive},
        {"xielu.alpha_n", &Xielu::alpha_negative},
        {"xielu.beta", &Xielu::beta},
        {"xielu.eps", &Xielu::epsilon}};
    for (const auto& [key, parameter] : parameters) {
      std::vector<float> values;
      for (const Xielu& layer : config_.xielu) values.push_back(layer.*parameter);
      out_.Floats(key, values);
    }
  }

  // Converters write none of these. The last is a key of Tutti's own.
  void PutChunkedAttention() {
    PutFloat("attention.temperature_scale", config_.query_growth);
    PutInt("attention.temperature_length", config_.query_period);
    out_.Bool(Named("attention.qk_norm"), config_.head_norm == HeadNorm::kUnweighted);
  }

  // Ranks of latent attention. The epsilon is a key of Tutti's own: converters have none.
  void PutLatent() {
    PutInt("attention.kv_lora_rank", config_.latent_rank);
    if (config_.query_rank != 0) PutInt("attention.q_lora_rank", config_.query_rank);
    if (config_.latent_norm_eps != config_.norm_eps)
      PutFloat("attention.latent_norm_epsilon", static_cast<double>(config_.latent_norm_eps));
  }

  void PutExperts() {
    PutInt("expert_count", config_.experts);
    PutInt("expert_used_count", config_.experts_used);
    if (family_.expert_width_key) PutInt("expert_feed_forward_length", config_.expert_feed_forward);
    constexpr std::string_view kCount = "expert_shared_count";
    constexpr std::string_view kLength = "expert_shared_feed_forward_length";
    const auto knows = [&](std::string_view key) {
      return std::find(family_.keys.begin(), family_.keys.end(), key) != family_.keys.end();
    };
    if (config_.shared_feed_forward != 0 && knows(kCount) && !knows(kLength)) {
      PutInt(kCount, config_.shared_feed_forward / config_.expert_feed_forward);
    } else if (config_.shared_feed_forward != 0) {
      PutInt(kLength, config_.shared_feed_forward);
    }
    if (config_.expert_groups > 1) {
      PutInt("expert_group_count", config_.expert_groups);
      PutInt("expert_group_used_count", config_.expert_groups_used);
    }
    if (config_.router_score == RouterScore::kSigmoid) {
      PutInt("expert_gating_func", 2);
      PutFloat("expert_weights_scale", static_cast<double>(config_.expert_weights_scale));
      out_.Bool(Named("expert_weights_norm"), config_.expert_weights_sum_to_1);
      return;
    }
    if (!config_.expert_weights_sum_to_1) out_.Bool(Named("expert_weights_norm"), false);
    if (config_.expert_weights_scale != 1)
      PutFloat("expert_weights_scale", static_cast<double>(config_.expert_weights_scale));
  }

  // Multipliers and caps, which the family has read already.
  Status PutFamilyKeys() {
    for (const std::string_view key : family_.keys) {
      const auto& whole = family_.state_keys;
      const bool copied = std::find(whole.begin(), whole.end(), key) != whole.end();
      const bool folded = family_.gguf_scales != nullptr && key == "embedding_scale";
      if (copied || folded || key.starts_with("expert_") || key == "mlp_bias" ||
          key == "attention.sliding_window" || key == "attention.causal")
        continue;
      RETURN_IF_ERROR(CopyFloat(key));
    }
    RETURN_IF_ERROR(CopyFloat("query_pre_attn_scalar"));
    PutWindowedLayers();
    PutRotatingLayers();
    return OkStatus();
  }

  // Where they are not those that readers of the architecture assume.
  void PutWindowedLayers() {
    if (config_.window == 0) return;
    const int every = family_.window_every;
    std::vector<bool> windowed, assumed;
    for (int i = 0; i < config_.layers; ++i) {
      windowed.push_back(config_.has_window(i));
      assumed.push_back(every == 0 || (i + 1) % every != 0);
    }
    if (windowed != assumed || family_.window_list)
      out_.Bools(Named("attention.sliding_window_pattern"), windowed);
  }

  // Where they are not those that readers of the architecture assume.
  void PutRotatingLayers() {
    if (family_.unrotated_every == 0) return;
    std::vector<bool> rotating, assumed;
    for (int i = 0; i < config_.layers; ++i) {
      rotating.push_back(config_.rotates(i));
      assumed.push_back((i + 1) % family_.unrotated_every != 0);
    }
    if (rotating != assumed) out_.Bools(Named("rope.layers"), rotating);
  }

  Status PutRope() {
    PutInt("rope.dimension_count", config_.rope_dims);
    PutFloat("rope.freq_base", config_.rope_freq_base);
    if (config_.rope_window_freq_base != 0)
      PutFloat("rope.freq_base_swa", config_.rope_window_freq_base);
    if (config_.rope_long) {
      out_.String(Named("rope.scaling.type"), "longrope");
      PutInt("rope.scaling.original_context_length", config_.context_length);
      PutFloat("rope.scaling.attn_factor", config_.rope_magnitude);
      return OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string type, keys_.StringOr("rope.scaling.type", "none"));
    if (type != "linear" && type != "yarn") return OkStatus();  // a tensor, or none
    out_.String(Named("rope.scaling.type"), type);
    RETURN_IF_ERROR(CopyFloat("rope.scaling.factor"));
    if (type == "linear") return OkStatus();
    RETURN_IF_ERROR(CopyInt("rope.scaling.original_context_length"));
    RETURN_IF_ERROR(CopyFloat("rope.scaling.yarn_beta_fast"));
    RETURN_IF_ERROR(CopyFloat("rope.scaling.yarn_beta_slow"));
    // A key of Tutti's own: converters have none.
    constexpr std::string_view kTruncate = "rope.scaling.truncate";
    ASSIGN_OR_RETURN(const bool truncates, keys_.BoolOr(kTruncate, true));
    if (truncates != family_.yarn_truncates) out_.Bool(Named(kTruncate), truncates);
    // A folder's is the whole magnitude, a GGUF's multiplies YaRN's own.
    ASSIGN_OR_RETURN(const double factor, keys_.Float("rope.scaling.factor", 1.0, 1e6));
    double own = 0.1 * std::log(factor) + 1.0;
    if (config_.latent_rank != 0) {
      ASSIGN_OR_RETURN(const double all, keys_.FloatOr("rope.scaling.mscale_all_dim", 0, 0, 1e3));
      if (all != 0) {
        PutFloat("rope.scaling.yarn_log_multiplier", 0.1 * all);
        own = 1;
      }
    }
    if (config_.rope_magnitude != own)
      PutFloat("rope.scaling.attn_factor", config_.rope_magnitude / own);
    return OkStatus();
  }

  const ModelConfig& config_;
  const Family& family_;
  const HyperParameters& keys_;
  gguf::HeaderWriter& out_;
};

}  // namespace

Status PutArchitecture(const ModelConfig& config, const HyperParameters& keys,
                       gguf::HeaderWriter& out) {
  return KeyWriter(config, keys, out).Write();
}

Status PutTokenizer(const tokenizer::TokenizerSpec& spec, gguf::HeaderWriter& out) {
  const bool characters = spec.model == "bpe";
  if (spec.model != "gpt2" && spec.model != "llama" && !characters) {
    return InvalidArgument("tokenizer_unsupported",
                           fmt::format("a tokenizer of kind {} is in no decoder's GGUF (gpt2 and "
                                       "llama are)",
                                       Quote(spec.model)));
  }
  const auto key = [](std::string_view name) { return std::string(kTokenizerPrefix).append(name); };
  // Other programs read BPE over characters as SentencePiece's, by scores; this one by the merges
  // and the pipeline.
  out.String(key("model"), characters ? "llama" : spec.model);
  out.String(key("pre"), spec.pre.empty() ? "default" : spec.pre);
  out.Strings(key("tokens"), spec.tokens);
  if (characters) {
    ASSIGN_OR_RETURN(const std::vector<float> scores, tokenizer::ScoresFromMerges(spec));
    out.Floats(key("scores"), scores);
  } else if (!spec.scores.empty()) {
    out.Floats(key("scores"), spec.scores);
  }
  if (!spec.token_types.empty()) out.Int32s(key("token_type"), spec.token_types);
  if (!spec.merges.empty()) out.Strings(key("merges"), spec.merges);
  const std::pair<std::string_view, const std::optional<int64_t>*> ids[] = {
      {"bos_token_id", &spec.bos},     {"eos_token_id", &spec.eos},
      {"eot_token_id", &spec.eot},     {"eom_token_id", &spec.eom},
      {"unknown_token_id", &spec.unk}, {"padding_token_id", &spec.pad},
      {"mask_token_id", &spec.mask},
  };
  for (const auto& [name, id] : ids) {
    // An id that is no token is not used when the folder is served, so that it is left out here.
    if (!*id || **id < 0 || static_cast<uint64_t>(**id) >= spec.tokens.size()) continue;
    out.U32(key(name), static_cast<uint32_t>(**id));
  }
  const std::pair<std::string_view, const std::optional<bool>*> flags[] = {
      {"add_bos_token", &spec.add_bos},
      {"add_eos_token", &spec.add_eos},
      {"add_space_prefix", &spec.add_space_prefix},
  };
  for (const auto& [name, flag] : flags) {
    if (*flag) out.Bool(key(name), **flag);
  }
  if (characters) {
    const bool prefix =
        std::ranges::any_of(spec.normalizer, [](const tokenizer::NormalizerStep& step) {
          return step.kind == tokenizer::NormalizerStep::Kind::kPrepend;
        });
    out.Bool(key("add_space_prefix"), prefix || spec.decode_strips_space.value_or(false));
  }
  // Tutti's own keys, for settings of the folder that the format has no key for.
  if (!spec.ends.empty()) {
    std::vector<int32_t> ends;
    for (const int64_t id : spec.ends) {
      if (id >= 0 && static_cast<uint64_t>(id) < spec.tokens.size())
        ends.push_back(static_cast<int32_t>(id));
    }
    out.Int32s(key("tutti.ends"), ends);
  }
  if (!spec.pipeline.empty()) out.String(key("tutti.pipeline"), spec.pipeline);
  if (!spec.chat_template.empty()) out.String("tokenizer.chat_template", spec.chat_template);
  return OkStatus();
}

void PutSampling(const GenerationDefaults& defaults, gguf::HeaderWriter& out) {
  const auto put = [&](const char* key, const std::optional<double>& value) {
    if (value) out.F32(key, static_cast<float>(*value));
  };
  if (defaults.do_sample) out.Bool("general.sampling.do_sample", *defaults.do_sample);
  if (defaults.top_k) out.U32("general.sampling.top_k", static_cast<uint32_t>(*defaults.top_k));
  put("general.sampling.temp", defaults.temperature);
  put("general.sampling.top_p", defaults.top_p);
  put("general.sampling.min_p", defaults.min_p);
  put("general.sampling.penalty_repeat", defaults.repetition_penalty);
}

}  // namespace tutti::model
