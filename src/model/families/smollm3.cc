// SmolLM 3: llama with layers whose queries and keys do not rotate: every fourth, unless the folder
// lists others. A GGUF's rows rotate as llama's; its format has no key for such a list, so that
// Tutti writes one of its own (rope.layers).
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr int kUnrotatedEvery = 4;
constexpr std::string_view kSmolLm3ConfigKeys[] = {"attention_bias", "no_rope_layer_interval",
                                                   "no_rope_layers"};
constexpr std::string_view kSmolLm3Defaults =
    R"({"hidden_size":2048,"intermediate_size":11008,"num_hidden_layers":36,
        "num_attention_heads":16,"num_key_value_heads":4,"max_position_embeddings":32768,
        "rms_norm_eps":1e-6,"rope_theta":2e6,"tie_word_embeddings":true})";

Status DescribeSmolLm3(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadBiases(source, config));
  if (source.keys.Has("rope.layers")) {
    ASSIGN_OR_RETURN(config.unrotated, source.keys.Flags("rope.layers", config.layers));
    config.unrotated.flip();
    return OkStatus();
  }
  ASSIGN_OR_RETURN(const int64_t every,
                   source.keys.IntOr("no_rope_layer_interval", kUnrotatedEvery, 1, kMaxLayers));
  for (int i = 0; i < config.layers; ++i) config.unrotated.push_back((i + 1) % every == 0);
  return OkStatus();
}

}  // namespace

const Family kSmolLm3 = {.architecture = "smollm3",
                         .model_type = "smollm3",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .config_keys = kSmolLm3ConfigKeys,
                         .config_defaults = kSmolLm3Defaults,
                         .unrotated_every = kUnrotatedEvery,
                         .describe = &DescribeSmolLm3};

}  // namespace tutti::model
