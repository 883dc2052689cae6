// The first Gemma: llama with embeddings times the root of the width, GELU, and norms whose weights
// folders store less one.
#include <cmath>

#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kGemma1ConfigKeys[] = {"attention_bias", "hidden_activation"};
constexpr std::string_view kGemma1Defaults =
    R"({"hidden_size":3072,"intermediate_size":24576,"num_hidden_layers":28,
        "num_attention_heads":16,"num_key_value_heads":16,"head_dim":256,
        "max_position_embeddings":8192,"rms_norm_eps":1e-6,"tie_word_embeddings":true})";

Status DescribeGemma1(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "gelu_pytorch_tanh"));
  config.gate = GateKind::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  return ReadBiases(source, config);
}

}  // namespace

const Family kGemma = {.architecture = "gemma",
                       .model_type = "gemma",
                       .config_keys = kGemma1ConfigKeys,
                       .config_defaults = kGemma1Defaults,
                       .norms_less_one = true,
                       .describe = &DescribeGemma1};

}  // namespace tutti::model
