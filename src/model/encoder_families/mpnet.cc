// MPNet (Song et al. 2020): RoBERTa without token types, and a bias of the scores by the distance
// of two tokens, in buckets that all layers share.
#include <array>

#include "model/encoder_families/family.h"

namespace tutti::model {
namespace {

constexpr std::array<EncoderNames, 1> kMpnetNames = {
    EncoderNames{.words = "embeddings.word_embeddings",
                 .positions = "embeddings.position_embeddings",
                 .embedding_norm = "embeddings.LayerNorm",
                 .layers = "encoder.layer.",
                 .q = "attention.attn.q",
                 .k = "attention.attn.k",
                 .v = "attention.attn.v",
                 .attn_output = "attention.attn.o",
                 .attn_norm = "attention.LayerNorm",
                 .up = "intermediate.dense",
                 .down = "output.dense",
                 .ffn_norm = "output.LayerNorm",
                 .distance_bias = "encoder.relative_attention_bias",
                 .head_dense = "classifier.dense",
                 .head_out = "classifier.out_proj",
                 .mlm_dense = "lm_head.dense",
                 .mlm_norm = "lm_head.layer_norm",
                 .mlm_out = "lm_head.decoder",
                 .mlm_bias = "lm_head.bias"}};
constexpr std::string_view kMpnetPrefixes[] = {"mpnet."};

Status DescribeMpnet(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(file, "hidden_act", "gelu"));
  RETURN_IF_ERROR(ReadBertShape(file, 0, config));
  config.token_types = 0;
  // transformers counts from behind its own padding token, whatever the file says.
  if (config.positions < 3) return file.Refuse("max_position_embeddings", "must be at least 3");
  config.first_position = 2;
  // transformers computes 32 buckets for any size of the table.
  ASSIGN_OR_RETURN(const int buckets,
                   file.IntOr("relative_attention_num_buckets", kDistanceBuckets, 1, 1 << 16));
  if (buckets != kDistanceBuckets)
    return file.Refuse("relative_attention_num_buckets", "is {}, only {} are supported", buckets,
                       kDistanceBuckets);
  config.distance = DistanceBias::kRelativeBuckets;
  return OkStatus();
}

}  // namespace

const EncoderFamily kMpnet = {.model_type = "mpnet",
                              .architecture = "mpnet",
                              .class_prefix = "MPNet",
                              .prefixes = kMpnetPrefixes,
                              .names = kMpnetNames,
                              .describe = &DescribeMpnet};

}  // namespace tutti::model
