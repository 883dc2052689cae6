// Arcee (AFM): llama whose feed-forward has no gate and squares what is above 0. A GGUF's rows
// rotate as llama's.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kArceeConfigKeys[] = {"attention_bias"};
constexpr std::string_view kArceeDefaults =
    R"({"hidden_size":2560,"intermediate_size":18432,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":4096,"rms_norm_eps":1e-5})";

Status DescribeArcee(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "relu2"));
  config.gated = false;
  config.gate = GateKind::kRelu2;
  return ReadBiases(source, config);
}

}  // namespace

const Family kArcee = {.architecture = "arcee",
                       .model_type = "arcee",
                       .gguf_rope = kernels::RopeMode::kAdjacent,
                       .config_keys = kArceeConfigKeys,
                       .config_defaults = kArceeDefaults,
                       .describe = &DescribeArcee};

}  // namespace tutti::model
