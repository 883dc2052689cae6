// Nemotron and Minitron: LayerNorm whose weights folders store less 1, a feed-forward without a
// gate that squares what is above 0, heads that rotate in part.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kNemotronConfigKeys[] = {"attention_bias", "norm_eps"};
constexpr std::string_view kNemotronDefaults =
    R"({"hidden_size":6144,"intermediate_size":24576,"num_hidden_layers":32,
        "num_attention_heads":48,"max_position_embeddings":4096,"norm_eps":1e-5,
        "partial_rotary_factor":0.5})";

Status DescribeNemotron(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "relu2"));
  config.layer_norm = true;
  config.norm_bias = true;
  config.gated = false;
  config.gate = GateKind::kRelu2;
  return ReadBiases(source, config);
}

}  // namespace

const Family kNemotron = {.architecture = "nemotron",
                          .model_type = "nemotron",
                          .config_keys = kNemotronConfigKeys,
                          .config_defaults = kNemotronDefaults,
                          .rope_partial = true,
                          .norm_eps = kLayerNormEps,
                          .norms_less_one = true,
                          .describe = &DescribeNemotron};

}  // namespace tutti::model
