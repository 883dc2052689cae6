// DistilBERT (Sanh et al. 2019): BERT without token types, with names of its own.
#include <array>

#include "model/config.h"
#include "model/encoder_families/family.h"

namespace tutti::model {
namespace {

constexpr std::array<EncoderNames, 1> kDistilBertNames = {
    EncoderNames{.words = "embeddings.word_embeddings",
                 .positions = "embeddings.position_embeddings",
                 .embedding_norm = "embeddings.LayerNorm",
                 .layers = "transformer.layer.",
                 .q = "attention.q_lin",
                 .k = "attention.k_lin",
                 .v = "attention.v_lin",
                 .attn_output = "attention.out_lin",
                 .attn_norm = "sa_layer_norm",
                 .up = "ffn.lin1",
                 .down = "ffn.lin2",
                 .ffn_norm = "output_layer_norm",
                 .head_dense = "pre_classifier",
                 .head_out = "classifier",
                 .mlm_dense = "vocab_transform",
                 .mlm_norm = "vocab_layer_norm",
                 .mlm_out = "vocab_projector",
                 .mlm_bias = "vocab_projector.bias"}};
constexpr std::string_view kDistilBertPrefixes[] = {"distilbert."};

Status DescribeDistilBert(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(file, "activation", "gelu"));
  ASSIGN_OR_RETURN(config.layers, file.Int("n_layers", 1, kMaxLayers));
  ASSIGN_OR_RETURN(config.width, file.Int("dim", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.feed_forward, file.Int("hidden_dim", 1, kMaxFeedForward));
  ASSIGN_OR_RETURN(config.heads, file.Int("n_heads", 1, kMaxHeads));
  ASSIGN_OR_RETURN(config.vocab_size, file.Int("vocab_size", 1, kMaxVocabulary));
  ASSIGN_OR_RETURN(config.positions, file.Int("max_position_embeddings", 1, kMaxContext));
  config.norm_eps = 1e-12F;
  config.head.activation = Activation::kRelu;
  return OkStatus();
}

}  // namespace

const EncoderFamily kDistilBert = {.model_type = "distilbert",
                                   .architecture = "distilbert",
                                   .class_prefix = "DistilBert",
                                   .prefixes = kDistilBertPrefixes,
                                   .names = kDistilBertNames,
                                   .describe = &DescribeDistilBert};

}  // namespace tutti::model
