// OLMo 2: norms behind attention and feed-forward instead of before, and of all queries, all keys.
// OLMo 3: windows in most layers, which rotate without the scaling of the others. As GGUF both are
// olmo2.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kOlmoKeys[] = {"attention.sliding_window"};
constexpr std::string_view kOlmo2ConfigKeys[] = {"attention_bias"};
constexpr std::string_view kOlmo2Defaults =
    R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-5})";
constexpr std::string_view kOlmo3ConfigKeys[] = {"attention_bias", "layer_types", "sliding_window"};
constexpr std::string_view kOlmo3Defaults =
    R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-5,
        "sliding_window":4096})";
constexpr RenamedTensor kOlmo2Tensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
};

Status DescribeOlmo2(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.head_norm = HeadNorm::kWholeRow;
  config.norm_before = false;
  config.norm_after = true;
  RETURN_IF_ERROR(ReadKindsOfLayers(source, 4, config));
  if (config.window != 0) RETURN_IF_ERROR(ReadWindowRope(source, config.rope_freq_base, config));
  return ReadAttentionBias(source, config);
}

}  // namespace

const Family kOlmo2 = {.architecture = "olmo2",
                       .model_type = "olmo2",
                       .keys = kOlmoKeys,
                       .config_keys = kOlmo2ConfigKeys,
                       .config_defaults = kOlmo2Defaults,
                       .tensors = kOlmo2Tensors,
                       .window_list = true,
                       .describe = &DescribeOlmo2};
const Family kOlmo3 = {.architecture = "olmo2",
                       .model_type = "olmo3",
                       .keys = kOlmoKeys,
                       .config_keys = kOlmo3ConfigKeys,
                       .config_defaults = kOlmo3Defaults,
                       .rope_of_layers = true,
                       .tensors = kOlmo2Tensors,
                       .describe = &DescribeOlmo2};

}  // namespace tutti::model
