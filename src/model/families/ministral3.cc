// Ministral 3: Mistral with YaRN, whose queries grow with the position from the length on that YaRN
// extends.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kMinistral3Keys[] = {"attention.sliding_window",
                                                "attention.temperature_scale"};
constexpr std::string_view kMinistral3ConfigKeys[] = {
    "rope_parameters.llama_4_scaling_beta", "rope_parameters.max_position_embeddings",
    "rope_scaling.llama_4_scaling_beta", "rope_scaling.max_position_embeddings", "sliding_window"};
constexpr std::string_view kMinistral3Defaults =
    R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":34,
        "num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,
        "max_position_embeddings":262144,"rms_norm_eps":1e-5})";

Status DescribeMinistral3(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadWindow(source, config));
  ASSIGN_OR_RETURN(config.query_growth,
                   source.keys.FloatOr("attention.temperature_scale", 0, 0, 1e3));
  return ReadInt(source.keys,
                 source.keys.Has("rope.scaling.original_context_length")
                     ? "rope.scaling.original_context_length"
                     : "context_length",
                 1, kMaxContext, &config.query_period);
}

}  // namespace

const Family kMinistral3 = {.architecture = "mistral3",
                            .model_type = "ministral3",
                            .gguf_rope = kernels::RopeMode::kAdjacent,
                            .keys = kMinistral3Keys,
                            .config_keys = kMinistral3ConfigKeys,
                            .config_defaults = kMinistral3Defaults,
                            .describe = &DescribeMinistral3};

}  // namespace tutti::model
