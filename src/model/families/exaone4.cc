// EXAONE 4: norms behind attention and feed-forward instead of before, and of each head's queries
// and keys. Where it has windows, layers without one do not rotate; without windows all rotate.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kExaone4Keys[] = {"attention.sliding_window"};
constexpr std::string_view kExaone4ConfigKeys[] = {"layer_types", "sliding_window",
                                                   "sliding_window_pattern"};
constexpr std::string_view kExaone4Defaults =
    R"({"hidden_size":4096,"intermediate_size":16384,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":32,"max_position_embeddings":2048,
        "rms_norm_eps":1e-5,"sliding_window":4096})";
constexpr RenamedTensor kExaone4Tensors[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
};

Status DescribeExaone4(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  config.head_norm = HeadNorm::kPerHead;
  config.norm_before = false;
  config.norm_after = true;
  // Published folders have the pattern as a text ("LLLG"), which counts only without a list.
  int64_t every = 4;
  if (!source.keys.Has("attention.sliding_window_pattern")) {
    ASSIGN_OR_RETURN(every, source.keys.IntOr("sliding_window_pattern", every, 1, kMaxLayers));
  }
  RETURN_IF_ERROR(ReadKindsOfLayers(source, static_cast<int>(every), config));
  if (config.window == 0) return OkStatus();
  config.unrotated = config.windowed;
  config.unrotated.flip();
  return OkStatus();
}

}  // namespace

const Family kExaone4 = {.architecture = "exaone4",
                         .model_type = "exaone4",
                         .keys = kExaone4Keys,
                         .config_keys = kExaone4ConfigKeys,
                         .config_defaults = kExaone4Defaults,
                         .tensors = kExaone4Tensors,
                         .window_list = true,
                         .describe = &DescribeExaone4};

}  // namespace tutti::model
