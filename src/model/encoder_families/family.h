// EncoderFamily: the file keys and tensor names of the encoders of one architecture, and their
// differences from BERT.
//
// Constant data; any thread. Each family has a file in this folder, which reads a model's settings
// into EncoderConfig's traits; the forward pass (encoder.h) reads only the traits. A new
// architecture over the same operations needs such a file and a line in family.cc. Tensors have the
// names of the published folders; those of GGUF follow from the same list.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/encoder_config.h"
#include "model/hyper_parameters.h"
#include "model/json_file.h"
#include "model/tensor_store.h"

namespace tutti::model {

// Names of tensors without ".weight" and ".bias"; empty: the family has no such tensor.
struct EncoderNames {
  std::string_view words = {}, positions = {}, types = {};
  std::string_view embedding_norm = {};
  std::string_view layers = {};  // before the number of a layer: "encoder.layer."
  // Of a layer, after its number.
  std::string_view q = {}, k = {}, v = {};  // or all in one:
  std::string_view qkv = {};                // rows of q, then k, then v
  std::string_view attn_output = {};
  std::string_view attn_norm = {};
  std::string_view up = {}, gate = {};  // or both in one:
  std::string_view gate_up = {};
  bool up_first = false;  // in gate_up the rows of up come before those of gate
  std::string_view down = {};
  std::string_view ffn_norm = {};
  // The rest of the model.
  std::string_view final_norm = {};
  std::string_view distance_bias = {};  // [buckets][heads]
  // Embeddings of distances and their norm; of a layer, what makes keys and queries of them.
  std::string_view distances = {}, distances_norm = {}, distance_k = {}, distance_q = {};
  std::string_view head_dense = {}, head_norm = {}, head_out = {};
  // The masked-language head: a matrix with GELU, a norm, the vocabulary's matrix (that of
  // `words` if the file has none) and its bias, whose name is whole.
  std::string_view mlm_dense = {}, mlm_norm = {}, mlm_out = {}, mlm_bias = {};
};

// The names of BERT, and those of the modules of transformers 5. A family changes what differs.
constexpr EncoderNames NamesOfBert() {
  EncoderNames names;
  names.words = "embeddings.word_embeddings";
  names.types = "embeddings.token_type_embeddings";
  names.embedding_norm = "embeddings.LayerNorm";
  names.layers = "encoder.layer.";
  names.q = "attention.self.query";
  names.k = "attention.self.key";
  names.v = "attention.self.value";
  names.attn_output = "attention.output.dense";
  names.attn_norm = "attention.output.LayerNorm";
  names.head_dense = "pooler.dense";
  names.head_out = "classifier";
  return names;
}
constexpr EncoderNames NamesOfTransformers5() {
  EncoderNames names;
  names.words = "embeddings.word_embeddings";
  names.types = "embeddings.token_type_embeddings";
  names.embedding_norm = "embeddings.LayerNorm";
  names.layers = "layers.";
  names.q = "self_attn.q_proj";
  names.k = "self_attn.k_proj";
  names.v = "self_attn.v_proj";
  names.attn_output = "self_attn.o_proj";
  names.attn_norm = "post_attention_layernorm";
  names.up = "mlp.up_proj";
  names.gate = "mlp.gate_proj";
  names.down = "mlp.down_proj";
  names.ffn_norm = "post_mlp_layernorm";
  names.head_dense = "pooler.dense";
  names.head_out = "classifier";
  return names;
}

struct EncoderFamily {
  std::string_view model_type;    // of config.json
  std::string_view architecture;  // general.architecture of a GGUF; EncoderConfig::architecture
  bool in_gguf = false;           // public converters write it
  std::string_view class_prefix;  // of its classes in transformers: "Bert"
  std::span<const std::string_view> prefixes;  // that may stand before the names: "bert."
  std::span<const EncoderNames> names;  // more than one where folders of both kinds are published
  // Sets shape and traits from config.json. Errors: model_hparam.
  Status (*describe)(const JsonFile& file, EncoderConfig& config);
  // Sets the traits from a GGUF, whose shape `config` has already; null: BERT's. Errors:
  // model_hparam.
  Status (*describe_gguf)(const HyperParameters& keys, EncoderConfig& config) = nullptr;
};

// nullptr for an unknown one.
const EncoderFamily* EncoderFamilyOf(std::string_view architecture);  // of EncoderConfig
const EncoderFamily* EncoderFamilyOfGguf(std::string_view architecture);
// By model_type, or by the name of its class where a file has no model_type.
const EncoderFamily* EncoderFamilyOfConfig(const JsonFile& file);
std::string KnownEncoderTypes();  // for messages: "bert, roberta, ..."
std::string KnownGgufEncoders();  // "bert, nomic-bert, ..."

// The names that this checkpoint uses, and the prefix of its tensors. The first if none fits.
struct EncoderNaming {
  const EncoderNames* names;
  std::string_view prefix;
};
EncoderNaming NamingOf(const EncoderFamily& family, const TensorStore& store);
// The names that a GGUF's tensors are given. `gate_apart`: it has a tensor of the gate alone.
const EncoderNames& GgufNamesOf(const EncoderFamily& family, bool gate_apart);

// --- steps of `describe` that several families share; errors: model_hparam ---

// Refuses another value than `supported`, which is also the default.
Status RefuseUnless(const JsonFile& file, std::string_view key, std::string_view supported);
// layers, width, feed_forward, heads, vocab_size, positions and token_types under BERT's keys, and
// norm_eps of `eps_key`.
Status ReadBertShape(const JsonFile& file, int default_types, EncoderConfig& config,
                     std::string_view eps_key = "layer_norm_eps");
// RoBERTa's positions begin behind the padding token's.
Status ReadFirstPosition(const JsonFile& file, EncoderConfig& config);
// The base of rotation in `rope_parameters` (or in its member `kind`), if it is there. Refuses
// scaled rotation.
Status ReadRopeParameters(const JsonFile& file, std::string_view kind, double* base);
// An activation function under `key`.
Result<Activation> ReadActivationOf(const JsonFile& file, std::string_view key,
                                    std::string_view fallback);

// The supported families: each is defined in a file of its own, and family.cc lists them.
extern const EncoderFamily kBert, kRoberta, kXlmRoberta, kCamembert;
extern const EncoderFamily kNomicBertFamily;
extern const EncoderFamily kModernBert;
extern const EncoderFamily kMpnet;
extern const EncoderFamily kDistilBert;
extern const EncoderFamily kNewBert, kGte;
extern const EncoderFamily kJinaBertV2;
extern const EncoderFamily kJinaV3;
extern const EncoderFamily kDebertaV2;

}  // namespace tutti::model
