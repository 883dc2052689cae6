// Family: the file keys and tensor names of the decoders of one architecture, and their differences
// from llama.
//
// Constant data; any thread. Each family has a file in this folder, which reads a model's settings
// into ModelConfig's traits; the forward pass reads only the traits. A new dense architecture over
// the same operations needs such a file and the few lines that CONTRIBUTING.md lists. Keys and
// tensors have GGUF's names; families whose safetensors folders name tensors differently from llama
// list the differences.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/attention.h"
#include "model/config.h"
#include "model/hyper_parameters.h"
#include "model/tensor_store.h"

namespace tutti::model {

// The beginning of a tensor's name within its layer, with its dot: {"post_attention_layernorm.",
// "ffn_norm."}.
struct RenamedTensor {
  std::string_view transformers;
  std::string_view gguf;
};

// A matrix of a layer that is part of a larger one in the family's GGUF: {"attn_k.weight",
// "attn_qkv.weight", 1} is the second. Readers take such matrices apart by their shape
// (decoder_tensors.cc); this is for who writes one (folder_gguf_layout.cc).
struct JoinedTensor {
  std::string_view part;
  std::string_view whole;
  int place;
};

// Consecutive rows of a tensor, and what they are multiplied by.
struct RowScale {
  int64_t rows;
  double factor;
};

// The input of a family's reader: keys and tensors under GGUF's names.
struct FamilySource {
  Form form;
  const HyperParameters& keys;
  const TensorStore& store;
};

inline constexpr std::string_view kRmsNormEps = "attention.layer_norm_rms_epsilon";
inline constexpr std::string_view kLayerNormEps = "attention.layer_norm_epsilon";

struct Family {
  std::string_view architecture;                             // general.architecture of a GGUF
  std::string_view model_type;                               // of config.json
  kernels::RopeMode gguf_rope = kernels::RopeMode::kHalf;    // order of rotating rows in a GGUF
  kernels::RopeMode folder_rope = kernels::RopeMode::kHalf;  // and in its folders
  // Keys with a meaning here: every other of RefuseUnsupported's list (config.cc) is refused.
  std::span<const std::string_view> keys = {};
  // Keys of config.json that are read for this family in addition to the common ones
  // (config_keys.cc).
  std::span<const std::string_view> config_keys = {};
  // Defaults of transformers' class for keys that config.json lacks, as a JSON object.
  std::string_view config_defaults = {};
  bool rope_of_layers = false;  // rope_parameters holds an object for each kind of layer
  bool rope_partial = false;    // in its folders a part of a head may rotate
  bool rope_long = false;       // longrope is known
  bool latent = false;          // latent attention (ModelConfig::latent_rank)
  bool yarn_truncates = true;   // in a GGUF without a key for it (kernels::YarnParams)
  std::span<const RenamedTensor> tensors = {};  // before the common names (decoder_tensors.cc)
  std::span<const JoinedTensor> gguf_joined = {};
  // The width of experts has a key of its own, expert_feed_forward_length.
  bool expert_width_key = false;
  // Readers of its GGUFs assume that every so-manyth layer has no window, of a model that has one;
  // 0: all have it.
  int window_every = 0;
  bool window_list = false;  // its GGUFs list the layers with a window, if there are any
  // Layers with a window attend within chunks. Readers of its GGUFs assume that all layers but
  // every fourth do, in chunks of 8,192, and what follows from it (llama4.cc).
  bool chunked = false;
  // Readers of its GGUFs assume that every so-manyth layer does not rotate; 0: all layers rotate.
  int unrotated_every = 0;
  // Keys of the recurrence, whole numbers that a GGUF has too.
  std::span<const std::string_view> state_keys = {};
  // A GGUF lists the kv heads of each layer: 0 for one with a recurrence.
  bool kv_heads_by_layer = false;
  // Layers with a window may have heads of another shape than the others, and layers a feed-forward
  // of another width. The last layer has no window.
  bool layers_differ = false;
  std::string_view norm_eps = kRmsNormEps;  // key of the epsilon of norms
  bool norms_less_one = false;  // transformers' files hold weights of norms less 1, GGUF whole ones
  // A GGUF says by full_attention_interval, or by a list, which layers have a recurrence.
  bool recurrent_interval = false;
  // A folder has the gate and up matrices of all experts as one tensor, rows alternating, and
  // matrices of floats as [experts][inputs][outputs].
  bool alternating_experts = false;
  // The same with all gates before all ups.
  bool transposed_experts = false;
  // In a GGUF value head h of a recurrence is of group h % groups; in a folder a group's heads lie
  // together.
  bool gguf_tiled_heads = false;
  // The list in config.json whose length is the number of layers where that is not stated.
  std::string_view layer_list = {};
  // Factors of a GGUF's weights, relative to a folder's, of the tensor `name` under GGUF's name;
  // empty: equal. Null if all are.
  std::vector<RowScale> (*gguf_scales)(const HyperParameters& keys, const ModelConfig& config,
                                       std::string_view name) = nullptr;
  // Sets the traits; `config` has shape and rope already. Errors: model_hparam.
  Status (*describe)(const FamilySource& source, ModelConfig& config) = nullptr;
};

// nullptr for an unknown one.
const Family* FamilyOfArchitecture(std::string_view architecture);
const Family* FamilyOfModelType(std::string_view model_type);
// For messages: "gemma2, gemma3, ...".
std::string KnownArchitectures();
std::string KnownModelTypes();

// Steps of `describe` that several families share.

// Refuses an activation function other than `wanted`.
Status RefuseUnlessActivation(const FamilySource& source, std::string_view wanted);
// Reads the number of experts and how many are used; does nothing if the file states none.
Status ReadExperts(const FamilySource& source, ModelConfig& config);
// Reads the width of experts, expert_feed_forward_length, of a family that has that key.
Status ReadExpertWidth(const FamilySource& source, ModelConfig& config);
// The scores and weights of a router that takes sigmoids. Refuses groups of experts and other
// functions.
Status ReadSigmoidRouter(const FamilySource& source, ModelConfig& config);
// Which layers of a mixture have one network instead of experts: in a GGUF those without a router,
// in a folder those that its keys say (mlp_only_layers, decoder_sparse_step, first_k_dense_replace
// and ERNIE's).
Status ReadLayersWithoutExperts(const FamilySource& source, ModelConfig& config);
// Groups of experts (ModelConfig::expert_groups). Errors: groups that do not divide the experts, or
// whose used ones have too few.
Status ReadExpertGroups(const FamilySource& source, ModelConfig& config);
// attention.sliding_window; 0 or absent: none.
Status ReadWindow(const FamilySource& source, ModelConfig& config);
// Reads which layers have the window; without such a key `windowed` stays unchanged.
Status ReadWindowedLayers(const FamilySource& source, ModelConfig& config);
// For families whose layers with a window also rotate otherwise than the others: as the two above,
// but without a list all layers have it except every `every`th, and a window longer than the
// context stays, because it tells the kinds of layers apart.
Status ReadKindsOfLayers(const FamilySource& source, int every, ModelConfig& config);
// The base of the rotation in layers with a window, which is not scaled.
Status ReadWindowRope(const FamilySource& source, double fallback, ModelConfig& config);
// attention.bias: biases of queries, keys, values and of the output projection.
Status ReadAttentionBias(const FamilySource& source, ModelConfig& config);
// The same, but a GGUF shows its biases by their tensors: converters write no key for them.
Status ReadBiases(const FamilySource& source, ModelConfig& config);
// The shape of a recurrence with heads: taps of the convolution, width of keys, groups and heads. A
// GGUF states all heads' values too, so that their width is set; a folder's is left to the family.
Status ReadStateHeads(const FamilySource& source, ModelConfig& config);
// Sets the width of a head of Mamba-2 in a folder, whose heads have `inner` values together, and
// compares it with mamba_d_head where that is a number.
Status DivideState(const FamilySource& source, int64_t inner, ModelConfig& config);
// Whether Mamba-2 has biases of the convolution and of its projections: in a GGUF the tensors of
// the first such layer, in a folder its keys.
Status ReadMamba2Biases(const FamilySource& source, ModelConfig& config);

// For families with `layers_differ` (layer_shapes.cc). The kinds of layers as ReadKindsOfLayers;
// the heads and the rotation of those with a window, shared keys and values, widths of
// feed-forwards, and whether values are keys.
Status ReadLayerShapes(const FamilySource& source, int every, ModelConfig& config);
// Parts of it: the last layers read keys and values of the last layer of their kind before them.
Status ShareKeysAndValues(const FamilySource& source, ModelConfig& config);
Status ReadFeedForwards(const FamilySource& source, ModelConfig& config);
// Inputs of each layer (per-layer embeddings).
Status ReadLayerInputs(const FamilySource& source, ModelConfig& config);

// The supported families: each is defined in a file of its own, and family.cc lists them.
extern const Family kLlama, kMistral, kMixtral;
extern const Family kQwen2, kQwen2Moe, kQwen3, kQwen3Moe;
extern const Family kGranite, kGraniteMoe, kGraniteHybrid;
extern const Family kOlmo2, kOlmo3;
extern const Family kPhi3;
extern const Family kSmolLm3;
extern const Family kSeedOss;
extern const Family kErnie45, kErnie45Moe;
extern const Family kOlmoe;
extern const Family kExaone4;
extern const Family kGemma;
extern const Family kGemma2, kGemma3, kGemmaEmbedding;
extern const Family kGlm4, kGlm4Moe;
extern const Family kHunyuan;
extern const Family kFalconH1;
extern const Family kLfm2, kLfm2Moe;
extern const Family kCohere, kCohere2;
extern const Family kApertus;
extern const Family kArcee;
extern const Family kNemotron, kNemotronH, kNemotronHMoe;
extern const Family kStarcoder2;
extern const Family kStableLm;
extern const Family kMinistral3;
extern const Family kQwen3Next, kQwen35, kQwen35Moe;
extern const Family kGptOss;
extern const Family kDeepseekV2, kDeepseekV3;
extern const Family kGemma3n, kGemma4;
extern const Family kLlama4;
extern const Family kBitNet;

}  // namespace tutti::model
