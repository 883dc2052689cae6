// BERT (Devlin et al. 2018); RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT, whose positions
// begin behind the padding token's and whose classifiers bring both matrices.
#include <array>

#include "model/encoder_families/family.h"

namespace tutti::model {
namespace {

constexpr EncoderNames NamesWithHeads(std::string_view dense, std::string_view out,
                                      std::string_view mlm, std::string_view mlm_norm,
                                      std::string_view mlm_out, std::string_view mlm_bias) {
  EncoderNames names = NamesOfBert();
  names.positions = "embeddings.position_embeddings";
  names.up = "intermediate.dense";
  names.down = "output.dense";
  names.ffn_norm = "output.LayerNorm";
  names.head_dense = dense;
  names.head_out = out;
  names.mlm_dense = mlm;
  names.mlm_norm = mlm_norm;
  names.mlm_out = mlm_out;
  names.mlm_bias = mlm_bias;
  return names;
}
constexpr std::array<EncoderNames, 1> kBertNames = {NamesWithHeads(
    "pooler.dense", "classifier", "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm", "cls.predictions.decoder", "cls.predictions.bias")};
constexpr std::array<EncoderNames, 1> kRobertaNames = {
    NamesWithHeads("classifier.dense", "classifier.out_proj", "lm_head.dense", "lm_head.layer_norm",
                   "lm_head.decoder", "lm_head.bias")};
constexpr std::string_view kBertPrefix[] = {"bert."};
constexpr std::string_view kRobertaPrefix[] = {"roberta."};

Status DescribeBert(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(file, "hidden_act", "gelu"));
  // A decoder attends to earlier tokens only.
  ASSIGN_OR_RETURN(const bool decodes, file.BoolOr("is_decoder", false));
  if (decodes) return file.Refuse("is_decoder", "true is not supported");
  RETURN_IF_ERROR(RefuseUnless(file, "position_embedding_type", "absolute"));
  return ReadBertShape(file, 2, config);
}

Status DescribeRoberta(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(DescribeBert(file, config));
  return ReadFirstPosition(file, config);
}

}  // namespace

const EncoderFamily kBert = {.model_type = "bert",
                             .architecture = "bert",
                             .in_gguf = true,
                             .class_prefix = "Bert",
                             .prefixes = kBertPrefix,
                             .names = kBertNames,
                             .describe = &DescribeBert};
const EncoderFamily kRoberta = {.model_type = "roberta",
                                .architecture = "roberta",
                                .class_prefix = "Roberta",
                                .prefixes = kRobertaPrefix,
                                .names = kRobertaNames,
                                .describe = &DescribeRoberta};
const EncoderFamily kXlmRoberta = {.model_type = "xlm-roberta",
                                   .architecture = "xlm-roberta",
                                   .class_prefix = "XLMRoberta",
                                   .prefixes = kRobertaPrefix,
                                   .names = kRobertaNames,
                                   .describe = &DescribeRoberta};
// The same arithmetic under another name.
const EncoderFamily kCamembert = {.model_type = "camembert",
                                  .architecture = "roberta",
                                  .class_prefix = "Camembert",
                                  .prefixes = kRobertaPrefix,
                                  .names = kRobertaNames,
                                  .describe = &DescribeRoberta};

}  // namespace tutti::model
