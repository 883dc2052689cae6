// Jina v2 (Günther et al. 2023): BERT with a bias that falls with the distance (ALiBi, on both
// sides) for a position table, and a gated feed-forward block (GeGLU). Jina v3 (Sturua et al. 2024)
// with its adapters merged, as transformers 5 names it: XLM-RoBERTa with rotation.
#include <array>

#include "model/encoder_families/family.h"

namespace tutti::model {
namespace {

constexpr EncoderNames V2Names(std::string_view gate, std::string_view up,
                               std::string_view gate_up) {
  EncoderNames names = NamesOfBert();
  names.up = up;
  names.gate = gate;
  names.gate_up = gate_up;
  names.down = "mlp.wo";
  names.ffn_norm = "mlp.layernorm";
  return names;
}
// The second as older converters split the matrix.
constexpr std::array<EncoderNames, 2> kV2Names = {
    V2Names("", "", "mlp.gated_layers"), V2Names("mlp.gated_layers_w", "mlp.gated_layers_v", "")};
constexpr std::string_view kV2Prefixes[] = {"bert."};

void SetV2Traits(EncoderConfig& config) {
  config.distance = DistanceBias::kAlibi;
  config.gated = true;
  config.up_bias = false;
}

Status DescribeV2(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(file, "hidden_act", "gelu"));
  RETURN_IF_ERROR(RefuseUnless(file, "feed_forward_type", "geglu"));
  ASSIGN_OR_RETURN(const bool decodes, file.BoolOr("is_decoder", false));
  if (decodes) return file.Refuse("is_decoder", "true is not supported");
  ASSIGN_OR_RETURN(const double scaling, file.FloatOr("alibi_scaling", 1, 0, 1e9));
  if (scaling != 1) return file.Refuse("alibi_scaling", "is not supported");
  ASSIGN_OR_RETURN(const std::string pooler, file.StringOr("emb_pooler", ""));
  if (pooler == "mean") config.pooling = Pooling::kMean;
  RETURN_IF_ERROR(ReadBertShape(file, 2, config));
  SetV2Traits(config);
  return OkStatus();
}

Status DescribeV2Gguf(const HyperParameters&, EncoderConfig& config) {
  SetV2Traits(config);
  return OkStatus();
}

constexpr EncoderNames V3NamesOfTransformers5() {
  EncoderNames names = NamesOfTransformers5();
  names.gate = "";
  names.up = "mlp.fc1";
  names.down = "mlp.fc2";
  names.head_dense = "classifier.dense";
  names.head_out = "classifier.out_proj";
  return names;
}
constexpr std::array<EncoderNames, 2> kV3Names = {
    EncoderNames{.words = "embeddings.word_embeddings",
                 .types = "embeddings.token_type_embeddings",
                 .embedding_norm = "emb_ln",
                 .layers = "encoder.layers.",
                 .qkv = "mixer.Wqkv",
                 .attn_output = "mixer.out_proj",
                 .attn_norm = "norm1",
                 .up = "mlp.fc1",
                 .down = "mlp.fc2",
                 .ffn_norm = "norm2",
                 .head_dense = "classifier.dense",
                 .head_out = "classifier.out_proj"},
    V3NamesOfTransformers5()};
constexpr std::string_view kV3Prefixes[] = {"roberta.", "model.", "jina_embeddings_v3."};

Status DescribeV3(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(file, "hidden_act", "gelu"));
  RETURN_IF_ERROR(ReadBertShape(file, 1, config));
  config.rope_base = 20000;
  return ReadRopeParameters(file, "", &config.rope_base);
}

}  // namespace

const EncoderFamily kJinaBertV2 = {.model_type = "",
                                   .architecture = "jina-bert-v2",
                                   .in_gguf = true,
                                   .class_prefix = "JinaBert",
                                   .prefixes = kV2Prefixes,
                                   .names = kV2Names,
                                   .describe = &DescribeV2,
                                   .describe_gguf = &DescribeV2Gguf};
const EncoderFamily kJinaV3 = {.model_type = "jina_embeddings_v3",
                               .architecture = "jina-bert-v3",
                               .class_prefix = "JinaEmbeddingsV3",
                               .prefixes = kV3Prefixes,
                               .names = kV3Names,
                               .describe = &DescribeV3};

}  // namespace tutti::model
