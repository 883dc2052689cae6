// BitNet b1.58: llama with a norm of what the output and down projections read, and squared ReLU
// behind the gate. Its ternary matrices are quantised like those of other folders
// (quantized/bitnet.cc). A GGUF without an activation has SiLU, as its readers assume.
#include "base/quote.h"
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kBitNetConfigKeys[] = {"attention_bias"};
constexpr std::string_view kBitNetDefaults =
    R"({"hidden_size":2560,"intermediate_size":6912,"num_hidden_layers":30,
        "num_attention_heads":20,"num_key_value_heads":5,"max_position_embeddings":2048,
        "rms_norm_eps":1e-5,"rope_theta":5e5,"hidden_act":"relu2"})";
constexpr RenamedTensor kBitNetTensors[] = {{"self_attn.attn_sub_norm.", "attn_sub_norm."},
                                            {"mlp.ffn_sub_norm.", "ffn_sub_norm."}};

Status DescribeBitNet(const FamilySource& source, ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::string activation, source.keys.StringOr("hidden_activation", "silu"));
  config.gate = activation == "relu2" ? GateKind::kRelu2 : GateKind::kSilu;
  if (activation != "relu2" && activation != "silu") {
    return RefuseParameter("{} is {}, which is not supported here (relu2 and silu are)",
                           source.keys.Spelled("hidden_activation"), Quote(activation));
  }
  config.inner_norms = true;
  return ReadBiases(source, config);
}

}  // namespace

const Family kBitNet = {.architecture = "bitnet",
                        .model_type = "bitnet",
                        .config_keys = kBitNetConfigKeys,
                        .config_defaults = kBitNetDefaults,
                        .tensors = kBitNetTensors,
                        .describe = &DescribeBitNet};

}  // namespace tutti::model
