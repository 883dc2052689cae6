// ModelConfig: the hyper-parameters of a decoder, read from GGUF metadata or from the config.json
// of a safetensors folder, and validated.
//
// It also holds the traits in which the model's family differs from llama: the forward pass reads
// these traits and knows no family (families/family.h fills them). Plain value, immutable once
// read; any thread. Every field is within the ranges below, so no later code needs to check a
// product of two of them for overflow. Names and defaults follow GGUF.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "kernels/attention.h"

namespace tutti::model {

struct Family;
class HyperParameters;
class TensorStore;

// Where a model's files come from: the order of rows that rotate differs.
enum class Form : uint8_t {
  kGguf,
  kTransformers,  // a folder of safetensors with config.json
};

// Widest values accepted. The largest dense models published stay below half of each.
inline constexpr int kMaxLayers = 512;
inline constexpr int kMaxWidth = 1 << 16;  // embedding and attention width
inline constexpr int kMaxFeedForward = 1 << 20;
inline constexpr int kMaxHeads = 1024;
inline constexpr int kMaxVocabulary = 1 << 20;
inline constexpr int kMaxContext = 1 << 24;
inline constexpr int kMaxExperts = 1024;
inline constexpr int kMaxExpertGroups = 64;
inline constexpr int kMaxStreams = 8;

// The values over which rows of queries and keys are normalised: before they rotate, or after it
// (norm_rotated).
enum class HeadNorm : uint8_t {
  kNone,
  kPerHead,     // each head by itself, with one weight of [head_dim]
  kWholeRow,    // all heads together
  kUnweighted,  // each head by itself, without weights, in layers that rotate (Llama 4)
};

// What some layers have instead of attention.
enum class Recurrence : uint8_t {
  kNone,
  kShortConv,  // a gated convolution (LFM2)
  kDeltaNet,   // the gated delta rule (Qwen3-Next)
  kMamba2,     // the selective state space (Granite 4)
};

// Activation function of the gate of a feed-forward network, or of a network without a gate.
enum class GateKind : uint8_t {
  kSilu,
  kGeluTanh,
  kRelu2,        // max(x, 0)^2; only without a gate or with inner norms
  kXielu,        // Xielu; only without a gate
  kSiluClamped,  // gate and up within limits, up one more (kernels::Epilogue::kSwiGluClamped)
};

// Parameters of xIELU (Apertus) in one layer, as files store them.
struct Xielu {
  float alpha_positive = 0;
  float alpha_negative = 0;
  float beta = 0.5F;
  float epsilon = -1e-6F;  // below 0
};

// How a router's logits become the scores of experts.
enum class RouterScore : uint8_t {
  kSoftmax,
  kSigmoid,
};

// Factors of what the projection of a layer with Mamba-2 gives, and of the layer's outputs.
struct StateScales {
  double gate = 1, value = 1, key = 1, query = 1, rate = 1;
  double output = 1;
  bool operator==(const StateScales&) const = default;
};

struct ModelConfig {
  std::string architecture;  // "llama", "qwen3", ...: GGUF's name of the family
  std::string name;          // general.name, or empty
  int layers = 0;
  // Blocks of a GGUF behind the layers, which predict further tokens (multi-token prediction). They
  // are not loaded.
  int predicting_layers = 0;
  int width = 0;         // of the residual stream: embedding_length
  int feed_forward = 0;  // rows of gate and of up, in a layer without experts
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  // The same for layers with a window, where they differ; 0: they do not. All dims of such a head
  // rotate.
  int window_kv_heads = 0, window_head_dim = 0;
  // [layers] the layer whose keys and values a layer reads: itself, or one before it, of the same
  // kind, which it shares them with. Empty: all have their own.
  std::vector<int> kv_layer;
  int vocab_size = 0;      // rows of token_embd
  int context_length = 0;  // positions the model was made for
  float norm_eps = 0;
  bool tied_head = false;  // logits from token_embd: the file has no output.weight

  kernels::RopeMode rope_mode = kernels::RopeMode::kAdjacent;
  int rope_dims = 0;  // leading dims of a head that rotate
  double rope_freq_base = 10000.0;
  double rope_linear_factor = 1.0;       // positions are divided by it
  std::vector<float> rope_freq_factors;  // rope_dims/2 divisors of the frequencies, or empty
  double rope_magnitude = 1.0;           // cosine and sine are multiplied by it (YaRN)
  bool rope_yarn = false;                // the factors are YaRN's, known by the file's keys
  // The factors are longrope's for texts up to context_length, the trained length. A decoder with a
  // longer context, up to long_context, has rope_long_factors for all its texts.
  bool rope_long = false;
  int long_context = 0;  // 0: none
  std::vector<float> rope_long_factors;
  std::vector<bool> unrotated;  // [layers] whose queries and keys do not rotate; empty: all rotate

  // Traits, with the defaults of llama.
  bool qkv_bias = false;     // queries, keys and values have biases
  bool output_bias = false;  // so has the attention's output projection
  // Outputs of attention are weighed by the sigmoid of gates, q_rows() of them. A file has them in
  // the projection of queries: rows of each head's query, then of its gates.
  bool attention_gate = false;
  HeadNorm head_norm = HeadNorm::kNone;
  bool norm_rotated = false;  // that norm comes after the rotation
  bool norm_before = true;    // the inputs of attention and of the feed-forward are normalised
  bool norm_after = false;    // what they give is, before it is added
  // What the output projections of attention and of the feed-forward read is normalised (BitNet).
  bool inner_norms = false;
  bool layer_norm = false;  // norms of the residual stream subtract the mean
  bool norm_bias = false;   // and have biases
  // Attention and feed-forward read the same rows and are added together.
  bool parallel = false;
  std::string_view ffn_norm = "ffn_norm";  // tensor of the norm before the feed-forward
  double ffn_norm_scale = 1.0;             // its weights are multiplied by it
  double value_scale = 1.0;                // and values of attention by this
  // Latent attention (DeepSeek): keys but for their last rope_dims, which all heads share, and
  // values are products of a normalised row of this width. Each head has keys and values of its own
  // in the cache. Rotating dimensions of a head are its last ones.
  int latent_rank = 0;        // 0: another attention
  int query_rank = 0;         // the same of queries; 0: they are products of the layer's input
  int value_dim = 0;          // dimensions of a head's values, at most head_dim; 0: head_dim
  float latent_norm_eps = 0;  // epsilon of the norms of these rows
  bool value_norm = false;    // each head's values are normalised, without weights
  // Layers without a window have no projection of values: those are the keys before their norm.
  bool values_are_keys = false;
  // [layers] rows of gate and of up, in layers without experts; empty: feed_forward in all.
  std::vector<int> feed_forwards;
  // Values that a layer adds to its rows by a projection of them and of the token (per-layer
  // embeddings, Gemma 3n and 4); 0: none.
  int layer_inputs = 0;
  int layer_vocab = 0;        // rows of the table of tokens for them; tokens beyond it have row 0
  bool layer_scales = false;  // what a layer gives is multiplied by a number of its own
  // Residual streams of a row (AltUp, Gemma 3n); 0: the usual one. A layer runs on the active
  // stream and changes all by what it gave.
  int streams = 0;
  int active_stream = 0;
  int laurel_rank = 0;  // rank of a branch added to attention's output (LAuReL); 0: none
  // [layers] Gates of a network that are less than so many standard deviations above the mean of
  // their row become 0, and the others are reduced by that bound (Gemma 3n). -infinity: all stay;
  // empty: in all layers.
  std::vector<float> gate_cutoffs;
  GateKind gate = GateKind::kSilu;
  std::vector<Xielu> xielu;      // [layers] with that activation; empty: another
  bool gated = true;             // activation(gate) * up, otherwise activation(up)
  bool ffn_bias = false;         // a network without a gate has biases
  double embedding_scale = 1.0;  // rows of the embedding are multiplied by it
  double residual_scale = 1.0;   // what a layer's two parts give, before it is added
  double logit_scale = 1.0;      // logits
  // Queries at position p are multiplied by
  // 1 + query_growth ln(1 + floor((p + query_offset) / query_period)).
  double query_growth = 0.0;
  int query_period = 0, query_offset = 0;
  bool growth_unrotated = false;  // in layers that do not rotate alone
  double attention_scale = 0.0;   // scales scores before softmax; 0: 1/sqrt(head_dim)
  bool attention_sinks = false;   // each head has a score without a value in its softmax
  float attention_softcap = 0;    // c: scores become c tanh(score / c); 0: they stay
  float logit_softcap = 0;        // the same of logits
  // Sliding windows: such a layer sees `window` tokens, its own among them.
  int window = 0;                      // 0: no layer has one
  bool window_aligned = false;         // chunks: kernels::AttentionWindow::aligned
  std::vector<bool> windowed;          // [layers] which have it; empty: all
  double rope_window_freq_base = 0.0;  // of those layers, which are not scaled; 0: as the others
  // Rows see later ones too, in a window those less than `window` ahead. Such a model gives vectors
  // and generates nothing.
  bool both_ways = false;
  // Mixture of experts, each a feed-forward network.
  int experts = 0;                      // 0: one network for all
  int experts_used = 0;                 // experts that a row uses
  int expert_feed_forward = 0;          // rows of gate and of up of each
  bool expert_weights_sum_to_1 = true;  // the weights of those used, before they are scaled
  float expert_weights_scale = 1;
  bool expert_weights_on_inputs = false;  // they multiply what experts read, not what they give
  RouterScore router_score = RouterScore::kSoftmax;
  // Experts are in groups of as many, one behind another. A row uses experts of the groups with the
  // greatest scores alone: that of their best expert, or the sum of their best two.
  int expert_groups = 1;       // divides experts
  int expert_groups_used = 1;  // groups that a row may use
  bool groups_by_best_two = false;
  bool router_bias = false;        // scores have a bias added for the choice, not for the weights
  bool router_logit_bias = false;  // logits of the router have biases
  bool expert_bias = false;        // matrices of experts have biases
  int shared_feed_forward = 0;     // of the expert that all rows use; 0: none
  bool shared_gate = false;        // a sigmoid weighs its output
  std::vector<bool> without_experts;  // [layers] of a mixture that have one network; empty: none
  // Layers with experts have the network of other layers too: both read the residual stream after
  // norms of their own, and the outputs are normalised, added, and normalised again (Gemma 4). The
  // weights of experts are multiplied by a number for each.
  bool dense_and_experts = false;

  bool has_experts(int layer) const {
    return experts != 0 &&
           (without_experts.empty() || !without_experts[static_cast<size_t>(layer)]);
  }

  // Layers with a recurrence instead of attention: they have no keys and values, but a state of
  // fixed size in each sequence (recurrence.h).
  Recurrence recurrence = Recurrence::kNone;
  std::vector<bool> recurrent;  // [layers]; empty: none
  // Such layers have attention too, which reads the same rows; the outputs of both are added.
  bool attention_with_state = false;
  // Layers have one part each: attention or a recurrence, or in these a feed-forward. Empty: all
  // layers have both.
  std::vector<bool> feed_forward_alone;
  int conv_taps = 0;            // tokens that the convolution sees, its own among them
  bool conv_bias = false;       // the convolution has biases
  bool recurrent_bias = false;  // so have the projections of such layers
  int state_heads = 0;          // value heads
  int state_groups = 0;         // heads of queries and keys; divides state_heads
  int state_keys = 0;           // width of a head of queries and keys
  int state_values = 0;         // width of a value head
  bool tiled_heads = false;     // head h reads group h % groups; else each group has a run of heads
  bool state_norm = true;       // Mamba-2: outputs are normalised after their gates,
  bool state_norm_by_group = false;  // each group by itself
  StateScales state_scales;
  std::string_view output_norm = "output_norm";  // tensor of the last norm

  bool is_recurrent(int layer) const {
    return !recurrent.empty() && recurrent[static_cast<size_t>(layer)];
  }
  bool has_attention(int layer) const {
    const bool alone =
        !feed_forward_alone.empty() && feed_forward_alone[static_cast<size_t>(layer)];
    return !alone && (attention_with_state || !is_recurrent(layer));
  }
  bool has_feed_forward(int layer) const {
    return feed_forward_alone.empty() || feed_forward_alone[static_cast<size_t>(layer)];
  }
  int recurrent_layers() const {
    return static_cast<int>(std::count(recurrent.begin(), recurrent.end(), true));
  }
  int attention_layers() const {
    int count = 0;
    for (int i = 0; i < layers; ++i) count += has_attention(i);
    return count;
  }

  bool has_window(int layer) const {
    return window != 0 && (windowed.empty() || windowed[static_cast<size_t>(layer)]);
  }
  kernels::AttentionWindow attention_window() const { return {window, window_aligned}; }
  int max_context() const { return std::max(context_length, long_context); }
  bool rotates(int layer) const {
    return unrotated.empty() || !unrotated[static_cast<size_t>(layer)];
  }
  // For layers without a window, and for one layer.
  int q_rows() const { return heads * head_dim; }
  int kv_rows() const { return kv_heads * head_dim; }
  int value_width() const { return value_dim == 0 ? head_dim : value_dim; }
  int attended_rows() const { return heads * value_width(); }  // what the output projection reads
  int attended_rows(int layer) const { return value_dim == 0 ? q_rows(layer) : attended_rows(); }
  int head_dim_of(int layer) const {
    return window_head_dim != 0 && has_window(layer) ? window_head_dim : head_dim;
  }
  int kv_heads_of(int layer) const {
    return window_kv_heads != 0 && has_window(layer) ? window_kv_heads : kv_heads;
  }
  int q_rows(int layer) const { return heads * head_dim_of(layer); }
  int kv_rows(int layer) const { return kv_heads_of(layer) * head_dim_of(layer); }
  int max_q_rows() const { return heads * std::max(head_dim, window_head_dim); }
  // Whether layers with a window have heads of another shape than the others.
  bool window_heads_differ() const {
    return (window_head_dim != 0 && window_head_dim != head_dim) ||
           (window_kv_heads != 0 && window_kv_heads != kv_heads);
  }
  bool owns_kv(int layer) const {
    return has_attention(layer) &&
           (kv_layer.empty() || kv_layer[static_cast<size_t>(layer)] == layer);
  }
  bool cuts_gates(int layer) const {
    return !gate_cutoffs.empty() && std::isfinite(gate_cutoffs[static_cast<size_t>(layer)]);
  }
  // Whether gate and up of a network are stored, since what joins them needs whole rows.
  bool stores_gate_up(int layer) const { return inner_norms || cuts_gates(layer); }
  bool has_values(int layer) const { return !values_are_keys || has_window(layer); }
  int feed_forward_of(int layer) const {
    return feed_forwards.empty() ? feed_forward : feed_forwards[static_cast<size_t>(layer)];
  }
  // For layers without a window, or with one.
  kernels::AttentionShape attention_shape(bool of_window = false) const;
};

// Reads and checks everything but the tensors' shapes. Errors: as below, with the key and the
// numbers; unsupported architectures and features are refused by name, because running without them
// changes every answer.
Result<ModelConfig> ReadModelConfig(const gguf::File& file);

// As above, for `keys` of `family`; `store` has the tensors under GGUF's names (decoder_tensors.h).
// Errors: model_hparam; model_tensor_missing without token_embd.weight; model_nonfinite and the
// store's shape code for rope_freqs.weight.
Result<ModelConfig> ReadModelConfig(const Family& family, Form form, const HyperParameters& keys,
                                    const TensorStore& store);

}  // namespace tutti::model
