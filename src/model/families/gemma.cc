// Gemma 2 and 3: norms before and behind, embeddings times the root of the width, GELU, windows in
// some layers. 2: soft caps. 3: norms of each head, and another base of rotation where a window is;
// EmbeddingGemma is a Gemma 3 whose rows see each other both ways, and has a name of its own in a
// GGUF.
#include <algorithm>
#include <cmath>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kGemmaKeys[] = {"attention.sliding_window", "attn_logit_softcapping",
                                           "final_logit_softcapping"};
constexpr std::string_view kGemmaConfigKeys[] = {
    "attention_bias", "attn_logit_softcapping", "final_logit_softcapping", "hidden_activation",
    "layer_types",    "query_pre_attn_scalar",  "sliding_window"};
constexpr std::string_view kGemma2Defaults =
    R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
        "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
        "max_position_embeddings":8192,"rms_norm_eps":1e-6,"query_pre_attn_scalar":256,
        "sliding_window":4096,"final_logit_softcapping":30.0,"attn_logit_softcapping":50.0})";
constexpr int kGemma2WindowEvery = 2, kGemma3WindowEvery = 6;
constexpr std::string_view kGemma3ConfigKeys[] = {"_sliding_window_pattern",
                                                  "attention_bias",
                                                  "attn_logit_softcapping",
                                                  "final_logit_softcapping",
                                                  "hidden_activation",
                                                  "layer_types",
                                                  "query_pre_attn_scalar",
                                                  "rope_local_base_freq",
                                                  "sliding_window",
                                                  "sliding_window_pattern",
                                                  "use_bidirectional_attention"};
constexpr std::string_view kEmbeddingGemma = "gemma-embedding";
constexpr std::string_view kEmbeddingKeys[] = {"attention.causal", "attention.sliding_window"};
constexpr std::string_view kGemma3Defaults =
    R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
        "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
        "max_position_embeddings":131072,"rms_norm_eps":1e-6,"query_pre_attn_scalar":256,
        "sliding_window":4096,"rope_theta":1e6,"rope_local_base_freq":1e4})";
constexpr RenamedTensor kGemmaTensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
};

// In each group of `pattern` layers all but the last have the sliding window. `root_layers`: number
// of layers of the model size whose attention scores are divided by the root of width / heads,
// which its GGUF does not state.
Status DescribeGemma(const FamilySource& source, int pattern, int root_layers,
                     ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "gelu_pytorch_tanh"));
  config.gate = GateKind::kGeluTanh;
  config.norm_after = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  RETURN_IF_ERROR(ReadWindow(source, config));
  config.windowed.resize(static_cast<size_t>(config.layers));
  for (int i = 0; i < config.layers; ++i)
    config.windowed[static_cast<size_t>(i)] = (i + 1) % pattern != 0;
  RETURN_IF_ERROR(ReadWindowedLayers(source, config));
  RETURN_IF_ERROR(ReadAttentionBias(source, config));
  const double divided = config.layers == root_layers
                             ? static_cast<double>(config.width) / config.heads
                             : static_cast<double>(config.head_dim);
  ASSIGN_OR_RETURN(const double scalar,
                   source.keys.FloatOr("query_pre_attn_scalar", divided, 1e-3, 1e6));
  config.attention_scale = 1.0 / std::sqrt(scalar);
  ASSIGN_OR_RETURN(const double attention,
                   source.keys.FloatOr("attn_logit_softcapping", 0.0, 0.0, 1e6));
  ASSIGN_OR_RETURN(const double logits,
                   source.keys.FloatOr("final_logit_softcapping", 0.0, 0.0, 1e6));
  config.attention_softcap = static_cast<float>(attention);
  config.logit_softcap = static_cast<float>(logits);
  return OkStatus();
}

Status DescribeGemma2(const FamilySource& source, ModelConfig& config) {
  return DescribeGemma(source, kGemma2WindowEvery, 46, config);
}

Status DescribeGemma3(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t pattern,
                   source.keys.IntOr("sliding_window_pattern", kGemma3WindowEvery, 1, kMaxLayers));
  RETURN_IF_ERROR(DescribeGemma(source, static_cast<int>(pattern), 62, config));
  config.head_norm = HeadNorm::kPerHead;
  ASSIGN_OR_RETURN(const bool both_ways, source.keys.BoolOr("use_bidirectional_attention", false));
  if (both_ways) config.architecture = kEmbeddingGemma;
  config.both_ways = config.architecture == kEmbeddingGemma;
  if (config.both_ways) {
    // The files count both sides together: a row sees half of that number on each, and itself.
    ASSIGN_OR_RETURN(const int64_t window,
                     source.keys.IntOr("attention.sliding_window", 0, 0, kMaxContext));
    if (window > 0)
      config.window = std::min(static_cast<int>(window) / 2 + 1, config.context_length);
  }
  // Layers with a window rotate by a base of their own, also where no text is longer than it.
  if (config.window == 0) config.window = config.context_length;
  return ReadWindowRope(source, 10000.0, config);
}

}  // namespace

const Family kGemma2 = {.architecture = "gemma2",
                        .model_type = "gemma2",
                        .keys = kGemmaKeys,
                        .config_keys = kGemmaConfigKeys,
                        .config_defaults = kGemma2Defaults,
                        .tensors = kGemmaTensors,
                        .window_every = kGemma2WindowEvery,
                        .norms_less_one = true,
                        .describe = &DescribeGemma2};
const Family kGemma3 = {.architecture = "gemma3",
                        .model_type = "gemma3_text",
                        .keys = kGemmaKeys,
                        .config_keys = kGemma3ConfigKeys,
                        .config_defaults = kGemma3Defaults,
                        .rope_of_layers = true,
                        .tensors = kGemmaTensors,
                        .window_every = kGemma3WindowEvery,
                        .norms_less_one = true,
                        .describe = &DescribeGemma3};
const Family kGemmaEmbedding = {.architecture = kEmbeddingGemma,
                                .model_type = "gemma3_text",  // with use_bidirectional_attention
                                .keys = kEmbeddingKeys,
                                .config_keys = kGemma3ConfigKeys,
                                .config_defaults = kGemma3Defaults,
                                .rope_of_layers = true,
                                .tensors = kGemmaTensors,
                                .window_every = kGemma3WindowEvery,
                                .norms_less_one = true,
                                .describe = &DescribeGemma3};

}  // namespace tutti::model
