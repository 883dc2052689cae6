// Gemma 2 and 3: norms before and behind, embeddings times the root of the width, GELU, windows in
// some layers. 2: soft caps. 3: norms of each head, and another base of rotation where a window is.
#include <cmath>

#include "model/families/families.h"

namespace tutti::model {
namespace {

constexpr std::string_view kGemmaKeys[] = {"attention.sliding_window", "attn_logit_softcapping",
                                           "final_logit_softcapping"};
constexpr RenamedTensor kGemmaTensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
};

// Of `pattern` layers all but the last have the window. `root_layers`: the size whose scores are
// divided by the root of width / heads, which its GGUF does not say.
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
  return DescribeGemma(source, 2, 46, config);
}

Status DescribeGemma3(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int64_t pattern,
                   source.keys.IntOr("sliding_window_pattern", 6, 1, kMaxLayers));
  RETURN_IF_ERROR(DescribeGemma(source, static_cast<int>(pattern), 62, config));
  config.head_norm = HeadNorm::kPerHead;
  ASSIGN_OR_RETURN(config.rope_window_freq_base,
                   source.keys.FloatOr("rope.freq_base_swa", 10000.0, 1.0, 1e12));
  return OkStatus();
}

}  // namespace

const Family kGemma2 = {.architecture = "gemma2",
                        .model_type = "gemma2",
                        .keys = kGemmaKeys,
                        .tensors = kGemmaTensors,
                        .norms_less_one = true,
                        .describe = &DescribeGemma2};
const Family kGemma3 = {.architecture = "gemma3",
                        .model_type = "gemma3_text",
                        .keys = kGemmaKeys,
                        .tensors = kGemmaTensors,
                        .norms_less_one = true,
                        .describe = &DescribeGemma3};

}  // namespace tutti::model
