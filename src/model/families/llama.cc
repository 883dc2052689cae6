// llama and what is written as one: Mistral, SmolLM, TinyLlama; Mixtral, whose GGUF is a llama with
// experts. A GGUF's queries and keys are in the order that rotates neighbours.
#include "model/families/families.h"

namespace tutti::model {
namespace {

constexpr std::string_view kLlamaKeys[] = {"expert_count", "expert_used_count",
                                           "attention.sliding_window"};
constexpr RenamedTensor kMixtralTensors[] = {{"block_sparse_moe.gate.", "ffn_gate_inp."}};

Status DescribeLlama(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  RETURN_IF_ERROR(ReadExperts(source, config));
  RETURN_IF_ERROR(ReadWindow(source, config));
  if (source.form == Form::kTransformers) {
    ASSIGN_OR_RETURN(config.qkv_bias, source.keys.BoolOr("attention.bias", false));
    config.output_bias = config.qkv_bias;
  } else {
    config.qkv_bias = source.store.Find("blk.0.attn_q.bias") != nullptr;
    config.output_bias = source.store.Find("blk.0.attn_output.bias") != nullptr;
  }
  return OkStatus();
}

}  // namespace

const Family kLlama = {.architecture = "llama",
                       .model_type = "llama",
                       .gguf_rope = kernels::RopeMode::kAdjacent,
                       .keys = kLlamaKeys,
                       .describe = &DescribeLlama};
// Read from folders only: as GGUF both are llama.
const Family kMistral = {.architecture = "llama",
                         .model_type = "mistral",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .keys = kLlamaKeys,
                         .describe = &DescribeLlama};
const Family kMixtral = {.architecture = "llama",
                         .model_type = "mixtral",
                         .gguf_rope = kernels::RopeMode::kAdjacent,
                         .keys = kLlamaKeys,
                         .tensors = kMixtralTensors,
                         .describe = &DescribeLlama};

}  // namespace tutti::model
