// EncoderWeights: every matrix and vector of an encoder in the form the kernels read, packed once
// when a model is loaded.
//
// Immutable and shared, in one read-only arena, as Weights (weights.h) are. Biases and norms are
// float32 for every type of the matrices; a bias is padded with zeros to its matrix's packed rows.
// The embedding tables are looked up, never multiplied, and stay float32.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/aligned_buffer.h"
#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "kernels/rows_rope.h"
#include "model/encoder_config.h"
#include "model/relative_positions.h"
#include "model/tensor_store.h"

namespace tutti::model {

// The type in which the matrices are held and multiplied.
enum class EncoderDType {
  kF32,
  kBf16,        // weights rounded to bfloat16, activations float32
  kInt8,        // weights and activations in int8, one scale per row, columns balanced (peaks)
  kInt8Blocks,  // the same with one scale per 32: a fifth slower, for models that need it
};
const char* EncoderDTypeName(EncoderDType dtype);  // "f32", "bf16", "int8", "int8"

// The greatest magnitudes observed in the inputs of a layer's matrices, by column. The attention's
// output is not among them: it is a mean of values, and no column of it stands out.
struct EncoderPeaks {
  struct Layer {
    std::vector<float> qkv, up;  // [width]
    std::vector<float> down;     // [feed_forward]
  };
  std::vector<Layer> layers;
};

// y = (x * factors) * weight + bias
struct Linear {
  kernels::PackedMatrix weight;
  const float* input_factors = nullptr;  // [weight.cols], of x's columns; null: all 1
  const float* bias = nullptr;           // [weight.rows], or null: none
};

struct LayerNormWeights {
  const float* weight = nullptr;  // [width], or null: no norm
  const float* bias = nullptr;    // [width]
};

struct EncoderLayer {
  Linear qkv;                  // [width] -> 3 * width: q of all heads, k, v
  Linear attn_output;          // [width] -> width
  LayerNormWeights attn_norm;  // after the residual sum; with norms first, before qkv
  Linear up;                   // [width] -> feed_forward, then GELU; or gate and up interleaved
  Linear down;                 // [feed_forward] -> width
  LayerNormWeights ffn_norm;   // after the residual sum; with norms first, before up
};

// Biases of scores by distance, in the form of SpanAttentionArgs. Empty: none.
class DistanceTable {
 public:
  DistanceTable() = default;
  // For `heads` heads (1: the same for all) and distances up to `longest`.
  DistanceTable(int heads, int longest);
  // The value for the position of a query minus that of a key; |distance| <= longest +
  // kernels::kSpanTileRows.
  float& at(int head, int distance);

  const float* zero() const { return values_.empty() ? nullptr : values_.data() + middle_; }
  size_t stride() const { return stride_; }  // of a head; 0: the same for all

 private:
  std::vector<float> values_;
  size_t middle_ = 0, stride_ = 0;
};

// The head of a cross-encoder or classifier, applied to one row of a text (EncoderConfig::Head).
// Float32 for every type of the layers: the head is small, and scores are compared closely.
struct EncoderHead {
  Linear dense;           // [width] -> width, then the activation
  LayerNormWeights norm;  // after it
  Linear out;             // [width] -> labels
};

// The masked-language head, for vectors over the vocabulary.
struct LexicalHead {
  Linear dense;  // [width] -> width, then GELU
  LayerNormWeights norm;
  Linear out;  // [width] -> vocab_size
};

class EncoderWeights {
 public:
  struct Options {
    EncoderDType dtype = EncoderDType::kF32;
    const EncoderPeaks* peaks = nullptr;  // used for kInt8; without it columns are not scaled
    int threads = 1;                      // that pack, the calling one included
    bool bf16_pairs = false;              // as LoadOptions::bf16_pairs, for kBf16
    std::function<bool(size_t, size_t)> progress = nullptr;  // as LoadOptions::progress
    // That compute keys and queries of distances; null: the scalar ones. Or those of the same
    // model, loaded in another type.
    const kernels::KernelTable* kernels = nullptr;
    std::shared_ptr<const RelativePositions> relative = nullptr;
  };
  // Reads, checks and packs every tensor of `config`'s architecture. `store` holds the names of a
  // transformers checkpoint, with or without the architecture's prefix ("bert."), a classifier's
  // head where the configuration has labels, and maybe heads that encoding does not use; any other
  // tensor is refused. Errors: as Weights::Load.
  static Result<std::shared_ptr<const EncoderWeights>> Load(EncoderConfig config,
                                                            const TensorStore& store,
                                                            const Options& options);

  // Finds the errors that Load would report in any type before it reads a value: tensors that are
  // missing (model_tensor_missing), of other shapes (gguf_shape, st_shape), or do not belong
  // (model_hparam).
  static Status Check(const EncoderConfig& config, const TensorStore& store);

  const EncoderConfig& config() const { return config_; }
  EncoderDType dtype() const { return dtype_; }
  const float* words() const { return words_; }          // [vocab_size][width]
  const float* positions() const { return positions_; }  // [positions][width], or null: no table
  // Angles of config().positions positions for halves of a head, in layers with a window or without
  // one; empty without rotation.
  const kernels::RopeTable& rope(bool windowed) const {
    return windowed && window_rope_.positions() > 0 ? window_rope_ : rope_;
  }
  // In layers with a window: -inf beyond it.
  const DistanceTable& distance(bool windowed) const {
    return windowed ? window_distance_ : distance_;
  }
  // Null without such terms.
  const std::shared_ptr<const RelativePositions>& relative() const { return relative_; }
  const float* types() const { return types_; }  // [token_types][width]
  const LayerNormWeights& embedding_norm() const { return embedding_norm_; }
  const LayerNormWeights& final_norm() const { return final_norm_; }
  const EncoderLayer& layer(int index) const { return layers_[static_cast<size_t>(index)]; }

  // Only where config().labels is not empty.
  const EncoderHead& head() const { return head_; }

  // By config().dense, and only where config().lexical is set. Float32, the vocabulary's matrix in
  // bfloat16 unless the encoder is float32.
  const std::vector<Linear>& dense() const { return dense_; }
  const LexicalHead& lexical() const { return lexical_; }

  // All the memory weights take.
  size_t bytes() const { return arena_.size() + (relative_ == nullptr ? 0 : relative_->bytes()); }

 private:
  friend class EncoderLoader;
  EncoderWeights() = default;

  EncoderConfig config_;
  EncoderDType dtype_ = EncoderDType::kF32;
  const float* words_ = nullptr;
  const float* positions_ = nullptr;
  const float* types_ = nullptr;
  LayerNormWeights embedding_norm_, final_norm_;
  std::vector<EncoderLayer> layers_;
  EncoderHead head_;
  std::vector<Linear> dense_;
  LexicalHead lexical_;
  kernels::RopeTable rope_, window_rope_;
  const float* buckets_ = nullptr;  // [kDistanceBuckets][heads]
  DistanceTable distance_, window_distance_;
  std::shared_ptr<const RelativePositions> relative_;
  kernels::AlignedBuffer arena_;
};

}  // namespace tutti::model
