// llama and the families with its file format: Mistral, SmolLM, TinyLlama; Mixtral, whose GGUF is a
// llama with experts. A GGUF's queries and keys are in the order in which adjacent values rotate
// together.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kLlamaKeys[] = {"expert_count", "expert_used_count",
                                           "attention.sliding_window"};
constexpr std::string_view kLlamaConfigKeys[] = {"attention_bias", "num_experts",
                                                 "num_experts_per_tok", "num_local_experts"};
constexpr std::string_view kLlamaDefaults =
    R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-6})";
constexpr std::string_view kMistralConfigKeys[] = {"attention_bias", "sliding_window"};
constexpr std::string_view kMistralDefaults =
    R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,
        "rms_norm_eps":1e-6,"sliding_window":4096})";
constexpr std::string_view kMixtralConfigKeys[] = {"num_experts", "num_experts_per_tok",
                                                   "num_local_experts", "sliding_window"};
constexpr std::string_view kMixtralDefaults =
    R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,
        "rms_norm_eps":1e-5,"num_experts_per_tok":2,"num_local_experts":8,"rope_theta":1e6})";
constexpr RenamedTensor kMixtralTensors[] = {{"block_sparse_moe.gate.", "ffn_gate_inp."}};

Status DescribeLlama(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(ReadWindow(source, config));
  return ReadBiases(source, config);
}

}  // namespace

const Family kLlama = {.architecture = "llama",
                       .model_type = "llama",
                       .gguf_rope = kernels::RopeMode::kAdjacent,
                       .keys = kLlamaKeys,
                       .config_keys = kLlamaConfigKeys,
                       .config_defaults = kLlamaDefaults,
                       .describe = &DescribeLlama};
// Read from folders only: as GGUF both are llama.
const Family kMistral = {.architecture = "llama",
                         .model_type = "mistral",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .keys = kLlamaKeys,
                         .config_keys = kMistralConfigKeys,
                         .config_defaults = kMistralDefaults,
                         .describe = &DescribeLlama};
const Family kMixtral = {.architecture = "llama",
                         .model_type = "mixtral",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .keys = kLlamaKeys,
                         .config_keys = kMixtralConfigKeys,
                         .config_defaults = kMixtralDefaults,
                         .tensors = kMixtralTensors,
                         .describe = &DescribeLlama};

}  // namespace tutti::model
