// Nomic Embed (Nussbaum et al. 2024): queries and keys are rotated by their position, the
// feed-forward block is gated (SwiGLU), and no matrix has a bias. Its first published files have
// keys of their own.
#include <algorithm>
#include <array>

#include "model/config.h"
#include "model/encoder_families/family.h"

namespace tutti::model {
namespace {

constexpr std::array<EncoderNames, 2> kNomicNames = {
    EncoderNames{.words = "embeddings.word_embeddings",
                 .types = "embeddings.token_type_embeddings",
                 .embedding_norm = "emb_ln",
                 .layers = "encoder.layers.",
                 .qkv = "attn.Wqkv",
                 .attn_output = "attn.out_proj",
                 .attn_norm = "norm1",
                 .up = "mlp.fc11",
                 .gate = "mlp.fc12",
                 .down = "mlp.fc2",
                 .ffn_norm = "norm2",
                 .head_dense = "pooler.dense",
                 .head_out = "classifier"},
    NamesOfTransformers5()};
constexpr std::string_view kNomicPrefixes[] = {"bert.", "nomic_bert.", "model."};

// Reads the key under one of two names: transformers' own, or that of the first published files.
Result<int> EitherInt(const JsonFile& file, std::string_view key, std::string_view other, int low,
                      int high) {
  return file.Int(file.Has(key) || !file.Has(other) ? key : other, low, high);
}

// The switches of nomic-bert's files that are known in one position alone.
Status CheckNomicSwitches(const JsonFile& file) {
  for (const char* key :
       {"prenorm", "parallel_block", "causal", "use_rms_norm", "rotary_emb_interleaved",
        "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"}) {
    ASSIGN_OR_RETURN(const bool on, file.BoolOr(key, false));
    if (on) return file.Refuse(key, "true is not supported");
  }
  for (const char* key : {"rotary_emb_scale_base", "moe_every_n_layers", "num_experts"}) {
    const boost::json::value* value = file.Find(key);
    if (value == nullptr || (value->is_int64() && value->get_int64() == 0)) continue;
    return file.Refuse(key, "is not supported");
  }
  ASSIGN_OR_RETURN(const double fraction, file.FloatOr("rotary_emb_fraction", 1, 0, 1));
  if (fraction != 1) return file.Refuse("rotary_emb_fraction", "below 1 is not supported");
  RETURN_IF_ERROR(RefuseUnless(file, "hidden_act", "silu"));
  return RefuseUnless(file, "activation_function", "swiglu");
}

void SetNomicTraits(EncoderConfig& config) {
  config.gated = true;
  config.activation_function = Activation::kSilu;
  config.qkv_bias = config.output_bias = config.up_bias = config.down_bias = false;
}

// Base of the angles, and for how long texts they are those the model was trained with: what
// stretches them beyond is not supported.
Status ReadRotation(const JsonFile& file, EncoderConfig& config) {
  ASSIGN_OR_RETURN(config.rope_base, file.FloatOr("rotary_emb_base", 1000, 1, 1e9));
  RETURN_IF_ERROR(ReadRopeParameters(file, "", &config.rope_base));
  if (file.Has("rotary_scaling_factor") && file.Has("max_trained_positions")) {
    ASSIGN_OR_RETURN(const int trained, file.Int("max_trained_positions", 1, kMaxContext));
    config.positions = std::min(config.positions, trained);
  }
  return OkStatus();
}

Status DescribeNomic(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(CheckNomicSwitches(file));
  ASSIGN_OR_RETURN(config.layers, EitherInt(file, "num_hidden_layers", "n_layer", 1, kMaxLayers));
  ASSIGN_OR_RETURN(config.width, EitherInt(file, "hidden_size", "n_embd", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.feed_forward,
                   EitherInt(file, "intermediate_size", "n_inner", 1, kMaxFeedForward));
  ASSIGN_OR_RETURN(config.heads, EitherInt(file, "num_attention_heads", "n_head", 1, kMaxHeads));
  ASSIGN_OR_RETURN(config.vocab_size, file.Int("vocab_size", 1, kMaxVocabulary));
  ASSIGN_OR_RETURN(config.positions, EitherInt(file, "max_position_embeddings", "n_positions", 1,
                                               kMaxRotatedPositions));
  ASSIGN_OR_RETURN(config.token_types, file.IntOr("type_vocab_size", 2, 0, 64));
  const char* eps_key = file.Has("layer_norm_eps") ? "layer_norm_eps" : "layer_norm_epsilon";
  ASSIGN_OR_RETURN(const double eps, file.FloatOr(eps_key, 1e-12, 0, 1));
  config.norm_eps = static_cast<float>(eps);
  SetNomicTraits(config);
  return ReadRotation(file, config);
}

Status DescribeNomicGguf(const HyperParameters& keys, EncoderConfig& config) {
  SetNomicTraits(config);
  ASSIGN_OR_RETURN(config.rope_base, keys.FloatOr("rope.freq_base", 1000, 1, 1e9));
  return OkStatus();
}

}  // namespace

const EncoderFamily kNomicBertFamily = {.model_type = "nomic_bert",
                                        .architecture = kNomicBert,
                                        .in_gguf = true,
                                        .class_prefix = "NomicBert",
                                        .prefixes = kNomicPrefixes,
                                        .names = kNomicNames,
                                        .describe = &DescribeNomic,
                                        .describe_gguf = &DescribeNomicGguf};

}  // namespace tutti::model
