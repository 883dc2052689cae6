// StarCoder 2: LayerNorm, biases of all matrices, a feed-forward without a gate, and a window.
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kStarcoder2Keys[] = {"attention.sliding_window"};
constexpr std::string_view kStarcoder2ConfigKeys[] = {"norm_epsilon", "sliding_window", "use_bias"};
constexpr std::string_view kStarcoder2Defaults =
    R"({"hidden_size":3072,"intermediate_size":12288,"num_hidden_layers":30,
        "num_attention_heads":24,"num_key_value_heads":2,"max_position_embeddings":4096,
        "norm_epsilon":1e-5,"use_bias":true,"hidden_act":"gelu_pytorch_tanh",
        "tie_word_embeddings":true})";
constexpr RenamedTensor kStarcoder2Tensors[] = {
    {"mlp.c_fc.", "ffn_up."},
    {"mlp.c_proj.", "ffn_down."},
};

Status DescribeStarcoder2(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "gelu_pytorch_tanh"));
  config.layer_norm = true;
  config.norm_bias = true;
  config.gated = false;
  config.gate = GateKind::kGeluTanh;
  RETURN_IF_ERROR(ReadBiases(source, config));
  config.ffn_bias = config.qkv_bias;
  return ReadWindow(source, config);
}

}  // namespace

const Family kStarcoder2 = {.architecture = "starcoder2",
                            .model_type = "starcoder2",
                            .keys = kStarcoder2Keys,
                            .config_keys = kStarcoder2ConfigKeys,
                            .config_defaults = kStarcoder2Defaults,
                            .tensors = kStarcoder2Tensors,
                            .norm_eps = kLayerNormEps,
                            .describe = &DescribeStarcoder2};

}  // namespace tutti::model
