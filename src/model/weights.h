// Weights: every matrix and vector of a decoder in the form the kernels read, packed once when a
// model is loaded.
//
// Immutable and shared: all sequences, runners and threads read the same object. Its pages are
// mapped read-only, so that a stray write faults at once instead of causing wrong answers later.
// One arena holds everything, on huge pages where the system grants them. The file may be closed
// once Load returns. Matrices that share their input are one matrix (Q, K and V), matrices that
// meet in an epilogue are interleaved (gate and up), see kernels/pack.h.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "kernels/aligned_buffer.h"
#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "model/config.h"
#include "model/decoder_checkpoint.h"
#include "packed/file.h"

namespace tutti::model {

// Version of the arena's layout: the order of its parts and the panels of every format. Any change
// of these raises the number, because packed checkpoints store it (WeightsLayoutTest checks this).
inline constexpr uint32_t kWeightsLayout = 3;

// The arithmetic of the weights.
enum class WeightMode {
  kInt8,  // as the file has them; activations of quantised matrices in int8 blocks of 32. With
          // LoadOptions::bf16_pairs matrices of 16 bits in bfloat16, and their activations
  kF32,   // everything widened to float: the oracle. Four bytes per weight
  kF16,   // weights in 16 bits for every type in the file; activations in float
  kBf16,  // the same, with the range of float32; with LoadOptions::bf16_pairs activations too
};

// Conversion to and from the names in packed checkpoints.
packed::Arithmetic ArithmeticOf(WeightMode mode);
WeightMode ModeOf(packed::Arithmetic arithmetic);

// Matrices with one input, whose output rows follow one another. One part in most files; several if
// the file gives the matrices different types.
struct Projection {
  std::vector<kernels::PackedMatrix> parts;
  const float* bias = nullptr;  // [columns()], or none
  // Columns of the activations that stay floats (model/outliers.h), ascending. Parts with scales
  // per block have the weights that these meet (PackedMatrix::outliers).
  std::vector<int32_t> outliers;
  int columns() const;  // of the output, padding included
  int panels() const;
  bool reads_quantized() const;  // some part reads quantised activations
  bool reads_floats() const;     // some part reads float activations
  // The values that share a scale of the quantised activations; the same for all parts.
  kernels::ScalePer activation_scale() const;
  // Makes quantize() leave the outliers out of `rows`, which this projection reads.
  void KeepOutliers(kernels::QuantizedRows* rows) const;
};

// Weights of one expert of a mixture.
struct ExpertWeights {
  Projection gate_up;  // [width] -> 2 * its feed_forward
  Projection down;     // [its feed_forward] -> width
};

// Weights of a layer with a recurrence (recurrence.h); null where its kind has none.
struct RecurrentWeights {
  Projection in;                     // [width] -> RecurrentShape::projected
  Projection out;                    // [inner] -> width
  const float* conv = nullptr;       // [taps][conv_channels]
  const float* conv_bias = nullptr;  // [conv_channels]
  const float* rate_bias = nullptr;  // [state_heads], the three
  const float* log_decay = nullptr;  // the logarithm of the decay by a rate of 1: below 0
  const float* skip = nullptr;
  const float* norm = nullptr;  // DeltaNet: [state_values]; Mamba2: [inner], or null
};

// Weights of latent attention (ModelConfig::latent_rank).
struct LatentWeights {
  const float* query_norm = nullptr;      // [query_rank], null without such a rank, as `query`
  Projection query;                       // [query_rank] -> q_rows
  const float* key_value_norm = nullptr;  // [latent_rank]
  // [latent_rank] -> keys of all heads without their rotating dimensions, then attended_rows()
  Projection key_value;
};

// What a layer with several residual streams has in addition (decoder_altup.cc). The small matrices
// are floats.
struct StreamWeights {
  const float* router_norm = nullptr;   // [width]
  const float* router = nullptr;        // [streams][width], divided by the width
  const float* predict = nullptr;       // [streams][streams][streams]: to, from, by the router
  const float* correct = nullptr;       // [streams][streams]: of a stream, by the router
  const float* output_scale = nullptr;  // [width], of the active stream for the layer's own input
  Projection laurel_left;               // [width] -> laurel_rank
  Projection laurel_right;              // [laurel_rank] -> width
  const float* laurel_norm = nullptr;   // [width]
};

// Norms are null where the family has none.
struct LayerWeights {
  const float* attn_norm = nullptr;       // [width]
  const float* attn_norm_bias = nullptr;  // [width]; with LayerNorm only, where it is never null
  const float* q_norm = nullptr;  // [head_dim], or [q_rows] where the norm is of the whole row
  const float* k_norm = nullptr;  // [head_dim] or [kv_rows]
  const float* sinks = nullptr;   // [heads], kernels::AttentionArgs::sinks
  const float* attn_inner_norm = nullptr;  // [attended_rows], of what attn_output reads
  const float* ffn_inner_norm = nullptr;   // [feed_forward], of what down reads
  const float* attn_after_norm = nullptr;  // [width], of the attention's output
  const float* ffn_after_norm = nullptr;   // [width], of the feed-forward's output
  const float* output_scale = nullptr;     // [1], of the layer's rows; null: 1
  // [width] -> q_rows + 2 * kv_rows, and q_rows of gates where attention has them; empty if not
  // fused. A layer that shares keys and values has queries alone; where values are keys, they are
  // not there. Latent attention: [width] -> query_rank, or q_rows without one, + latent_rank +
  // rope_dims
  Projection qkv;
  Projection q, k, v;  // [width] -> q_rows, kv_rows, kv_rows; empty if fused
  Projection q_gate;   // [width] -> q_rows; the same
  LatentWeights latent;
  Projection attn_output;                // [attended_rows] -> width
  RecurrentWeights recurrent;            // instead of qkv and attn_output, or with them
  const float* ffn_norm = nullptr;       // [width]
  const float* ffn_norm_bias = nullptr;  // [width]; as that of attn_norm
  // [width] -> 2 * feed_forward, 16 + 16 per panel; empty if not fused. Where gate
  // and up are stored, all of gate, then all of up.
  Projection gate_up;
  Projection gate, up;  // [width] -> feed_forward each; empty if fused, but for up without a gate
  Projection down;      // [feed_forward] -> width
  // Per-layer embeddings, where the model has them.
  Projection input_gate;                    // [width] -> layer_inputs
  Projection input_output;                  // [layer_inputs] -> width
  const float* input_after_norm = nullptr;  // [width]
  StreamWeights streams;                    // of a model with several residual streams
  // Instead of gate, up and down, in a layer of a mixture that has experts. With them, if the model
  // has both.
  Projection router;  // [width] -> experts, then the shared expert's gate if it has one
  const float* router_bias = nullptr;  // [experts] added to scores for the choice alone, or null
  // [width], of what the router and the experts read: ffn_norm, unless the model has both.
  const float* router_norm = nullptr;
  const float* expert_norm = nullptr;
  const float* expert_scales = nullptr;  // [experts], of their weights, or null
  // [width], of the two outputs, if the model has both.
  const float* dense_after_norm = nullptr;
  const float* experts_after_norm = nullptr;
  std::vector<ExpertWeights> experts;  // empty: a layer without
  ExpertWeights shared_expert;         // of all rows, if the model has one

  // What the feed-forward of a fused layer multiplies first; without parts where there is none.
  const Projection& feed_forward() const {
    if (!gate_up.parts.empty()) return gate_up;
    return experts.empty() ? up : router;
  }
  // What a fused layer multiplies first.
  const Projection& first() const {
    if (!qkv.parts.empty()) return qkv;
    return recurrent.in.parts.empty() ? feed_forward() : recurrent.in;
  }
};

struct LoadOptions {
  WeightMode mode = WeightMode::kInt8;
  int threads = 1;  // that pack, the calling one included
  // Whether the kernels multiply bfloat16 in pairs (kernels::GemmKernels::bf16_pairs).
  bool bf16_pairs = false;
  // Whether they multiply formats with a scale per block in bfloat16 (GemmKernels::bf16_tiles).
  bool bf16_tiles = false;
  // Whether outlier columns of the activations stay floats next to int8 blocks (model/outliers.h).
  // False to measure their effect, and where nothing is computed.
  bool keep_outliers = true;
  bool fuse = true;  // false: q, k, v, gate and up stay matrices of their own, to measure what
                     // fusion brings
  // Called on the loading thread with the bytes packed so far and in all; false abandons the load
  // (cancelled).
  std::function<bool(size_t done, size_t total)> progress = nullptr;
};

class Weights {
 public:
  // Loads a decoder of any form; the tensors are not needed afterwards. A packed checkpoint's arena
  // is read unchanged: the mode must be the file's and `fuse` true. Errors: as for a GGUF below,
  // with the code of the form's shapes; packed_layout, packed_dtype, packed_checksum,
  // packed_header, packed_truncated.
  static Result<std::shared_ptr<const Weights>> Load(const DecoderCheckpoint& checkpoint,
                                                     const LoadOptions& options);

  // Reads, checks and packs every tensor. The file must have exactly the tensors of the
  // architecture. Errors: model_tensor_missing, gguf_shape (a tensor of another shape than the
  // hyper-parameters say), model_hparam (a tensor that does not belong, a width the kernels cannot
  // run), model_nonfinite, gguf_unsupported_type, out_of_memory, internal_error (threads that
  // cannot be had), cancelled by `progress`, and those of reading.
  static Result<std::shared_ptr<const Weights>> Load(const gguf::File& file,
                                                     const LoadOptions& options);

  // Computes what Load would make, without values: bytes(), the shape and format of every matrix,
  // no data. Reads no tensor and allocates no memory for one. Errors: as Load, except those of
  // values and memory.
  static Result<std::shared_ptr<const Weights>> Plan(const DecoderCheckpoint& checkpoint,
                                                     const LoadOptions& options);

  // Finds the errors that Load would report before it reads a value: tensors that are missing
  // (model_tensor_missing), of other shapes (gguf_shape, st_shape), or do not belong
  // (model_hparam).
  static Status Check(const DecoderCheckpoint& checkpoint);

  const ModelConfig& config() const { return config_; }
  WeightMode mode() const { return mode_; }
  bool fused() const { return fused_; }
  // Whether kernels must have GemmKernels::bf16_pairs to read them.
  bool bf16_pairs() const { return bf16_pairs_; }
  // The same of GemmKernels::bf16_tiles.
  bool bf16_tiles() const { return bf16_tiles_; }
  const LayerWeights& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
  // [width], times the scale of logits.
  const float* output_norm() const { return output_norm_; }
  // [width], times that scale; null without LayerNorm.
  const float* output_norm_bias() const { return output_norm_bias_; }
  const Projection& head() const { return head_; }  // [width] -> vocab_size; one part
  const kernels::PackedMatrix& embedding() const { return embedding_; }  // token -> row of width
  // Of all layers' inputs, empty without: token -> [layers][layer_inputs], [width] -> the same, and
  // the norm of one layer's.
  const kernels::PackedMatrix& layer_embedding() const { return layer_embedding_; }
  const Projection& layer_projection() const { return layer_projection_; }
  const float* layer_projection_norm() const { return layer_projection_norm_; }
  // [width] -> all residual streams but the first, one after another; empty for one stream.
  const Projection& stream_inputs() const { return stream_inputs_; }
  // [streams - 1], [width] -> width: of each stream but the first, for the output.
  const std::vector<Projection>& stream_outputs() const { return stream_outputs_; }

  // Size of the arena, which is all the memory that the weights take; for planned weights the size
  // that it would have.
  size_t bytes() const { return bytes_; }
  const std::byte* data() const { return arena_.data(); }  // null where they were only planned

 private:
  friend class WeightsLoader;
  Weights() = default;

  ModelConfig config_;
  WeightMode mode_ = WeightMode::kInt8;
  bool fused_ = true;
  bool bf16_pairs_ = false;
  bool bf16_tiles_ = false;
  std::vector<LayerWeights> layers_;
  const float* output_norm_ = nullptr;
  const float* output_norm_bias_ = nullptr;
  Projection head_;
  kernels::PackedMatrix embedding_;
  kernels::PackedMatrix layer_embedding_;
  Projection layer_projection_;
  const float* layer_projection_norm_ = nullptr;
  Projection stream_inputs_;
  std::vector<Projection> stream_outputs_;
  size_t bytes_ = 0;
  kernels::AlignedBuffer arena_;
  kernels::AlignedBuffer outliers_;  // weights that outliers meet, of all projections
};

}  // namespace tutti::model
