// GTE 1.5 (Zhang et al. 2024), model_type `new`; `gte` in transformers 5: BERT with rotation, which
// may be stretched by a factor (NTK), and a gated feed-forward block (GeGLU) without a bias.
#include <array>
#include <cmath>

#include "model/config.h"
#include "model/encoder_families/family.h"

namespace tutti::model {
namespace {

constexpr std::array<EncoderNames, 2> kGteNames = {
    EncoderNames{.words = "embeddings.word_embeddings",
                 .types = "embeddings.token_type_embeddings",
                 .embedding_norm = "embeddings.LayerNorm",
                 .layers = "encoder.layer.",
                 .qkv = "attention.qkv_proj",
                 .attn_output = "attention.o_proj",
                 .attn_norm = "attn_ln",
                 .gate_up = "mlp.up_gate_proj",
                 .up_first = true,
                 .down = "mlp.down_proj",
                 .ffn_norm = "mlp_ln",
                 .head_dense = "pooler.dense",
                 .head_out = "classifier"},
    NamesOfTransformers5()};
constexpr std::string_view kGtePrefixes[] = {"new.", "gte."};

// The base grows by the factor, and positions shrink by its 2/n-th power for heads of n. Source:
// kexue.fm/archives/9706, as the published implementation of `new` applies it to any text.
Status ReadScaling(const JsonFile& file, EncoderConfig& config) {
  const boost::json::value* scaling = file.Find("rope_scaling");
  if (scaling == nullptr) return OkStatus();
  if (!scaling->is_object()) return file.Refuse("rope_scaling", "must be an object");
  const JsonFile members = JsonFile::Of(scaling->get_object(), file.name());
  RETURN_IF_ERROR(RefuseUnless(members, "type", "ntk"));
  if (members.Has("mixed_b")) return members.Refuse("mixed_b", "is not supported");
  ASSIGN_OR_RETURN(const double factor, members.FloatOr("factor", 1, 1, 1e4));
  if (factor == 1) return OkStatus();
  config.rope_base *= factor;
  config.rope_divisor = std::pow(factor, 2.0 / (config.width / config.heads));
  return OkStatus();
}

Status DescribeGte(const JsonFile& file, EncoderConfig& config) {
  RETURN_IF_ERROR(RefuseUnless(file, "hidden_act", "gelu"));
  RETURN_IF_ERROR(RefuseUnless(file, "position_embedding_type", "rope"));
  RETURN_IF_ERROR(RefuseUnless(file, "layer_norm_type", "layer_norm"));
  for (const char* key : {"logn_attention_scale", "logn_attention_clip1"}) {
    ASSIGN_OR_RETURN(const bool on, file.BoolOr(key, false));
    if (on) return file.Refuse(key, "true is not supported");
  }
  ASSIGN_OR_RETURN(const bool packed, file.BoolOr("pack_qkv", true));
  if (!packed) return file.Refuse("pack_qkv", "false is not supported");
  RETURN_IF_ERROR(ReadBertShape(file, 1, config));
  const bool is_new = file.Has("rope_theta") || !file.Has("rope_parameters");
  ASSIGN_OR_RETURN(config.rope_base, file.FloatOr("rope_theta", is_new ? 10000 : 160000, 1, 1e9));
  RETURN_IF_ERROR(ReadRopeParameters(file, "", &config.rope_base));
  RETURN_IF_ERROR(ReadScaling(file, config));
  config.gated = true;
  config.up_bias = false;
  return OkStatus();
}

}  // namespace

const EncoderFamily kNewBert = {.model_type = "new",
                                .architecture = "gte",
                                .class_prefix = "New",
                                .prefixes = kGtePrefixes,
                                .names = kGteNames,
                                .describe = &DescribeGte};
const EncoderFamily kGte = {.model_type = "gte",
                            .architecture = "gte",
                            .class_prefix = "Gte",
                            .prefixes = kGtePrefixes,
                            .names = kGteNames,
                            .describe = &DescribeGte};

}  // namespace tutti::model
