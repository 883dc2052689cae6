// Phi 3 and 3.5, Phi 4: queries, keys and values are one tensor in the file, and so are gate and up
// (decoder_tensors.cc takes them apart); heads may rotate in part. "longrope" has factors for short
// and for long texts (config.cc).
#include "model/families/family.h"

namespace tutti::model {
namespace {

constexpr std::string_view kPhi3Keys[] = {"attention.sliding_window"};
constexpr std::string_view kPhi3ConfigKeys[] = {"sliding_window"};
constexpr std::string_view kPhi3Defaults =
    R"({"hidden_size":3072,"intermediate_size":8192,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":4096,"rms_norm_eps":1e-5,
        "original_max_position_embeddings":4096})";
constexpr RenamedTensor kPhi3Tensors[] = {
    {"self_attn.qkv_proj.", "attn_qkv."},
    {"mlp.gate_up_proj.", "ffn_up."},
};
constexpr JoinedTensor kPhi3Joined[] = {
    {"attn_q.weight", "attn_qkv.weight", 0}, {"attn_k.weight", "attn_qkv.weight", 1},
    {"attn_v.weight", "attn_qkv.weight", 2}, {"ffn_gate.weight", "ffn_up.weight", 0},
    {"ffn_up.weight", "ffn_up.weight", 1},
};

Status DescribePhi3(const FamilySource& source, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseUnlessActivation(source, "silu"));
  return ReadWindow(source, config);
}

}  // namespace

const Family kPhi3 = {.architecture = "phi3",
                      .model_type = "phi3",
                      .keys = kPhi3Keys,
                      .config_keys = kPhi3ConfigKeys,
                      .config_defaults = kPhi3Defaults,
                      .rope_partial = true,
                      .rope_long = true,
                      .tensors = kPhi3Tensors,
                      .gguf_joined = kPhi3Joined,
                      .describe = &DescribePhi3};

}  // namespace tutti::model
