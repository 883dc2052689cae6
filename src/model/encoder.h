// Encoder: the forward pass of an encoder over the kernels.
//
// Architecture: Devlin et al. 2018 (BERT), and what the traits of EncoderConfig say otherwise; the
// pass knows no family. Texts are packed one after another, without padding. Owner: one
// runner. Thread: Run() is SPMD (model/team.h); every worker of the team calls it with the same
// batch. Owns its scratch, allocates nothing in Run. Bits: the rows of a text depend on its tokens
// only, never on the other texts of the batch, its place in it or the number of workers (gemm.h,
// span_attention.h say why).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kernels/aligned_buffer.h"
#include "kernels/kernels.h"
#include "kernels/span_attention.h"
#include "model/encoder_weights.h"
#include "model/team.h"

namespace tutti::model {

// Everything it points to stays unchanged during the pass.
struct EncoderBatch {
  std::span<const TokenId> tokens;   // [rows], each < vocab_size
  std::span<const uint8_t> types;    // [rows], each < max(token_types, 1); or empty: all 0
  std::span<const int32_t> offsets;  // [texts + 1]: text i is rows [offsets[i], offsets[i + 1])
  // First rows of the texts whose scores are wanted; none unless the model has labels.
  std::span<const int32_t> scored = {};
};

class Encoder {
 public:
  struct Options {
    int workers = 1;
    int max_rows = 1024;  // tokens of one batch
    int max_scored = 32;  // texts of one batch whose scores are wanted
  };
  // Errors: out_of_memory, of its scratch.
  static Result<std::unique_ptr<Encoder>> Create(std::shared_ptr<const EncoderWeights> weights,
                                                 const kernels::KernelTable& kernels,
                                                 const Options& options);

  const Options& options() const { return options_; }
  const EncoderWeights& weights() const { return *weights_; }
  size_t scratch_bytes() const { return memory_.size(); }

  // On one thread, before Run: how the batch's attention is cut. Texts have 1 to
  // positions - first_position tokens, together at most max_rows.
  void Prepare(const EncoderBatch& batch);
  // From now on passes raise `peaks`, of this model's sizes, to what they see; nullptr: no longer.
  void Watch(EncoderPeaks* peaks) { peaks_ = peaks; }
  // All layers for all rows, then the scores. Every worker calls it; complete when it returns.
  void Run(const EncoderBatch& batch, Team& team);
  // [rows][width]: what the last layer left; until the next Run.
  const float* hidden() const { return x_; }
  // What the model makes of a text of `rows` rows from `first_row` on: [vector_width()] floats of
  // its configuration, and [rows][token_width()]. By one thread, for which `worker` stands; of the
  // same worker one call at a time. Until the next Run.
  void WriteVector(int first_row, int rows, int worker, std::span<float> out);
  void WriteTokens(int first_row, int rows, int worker, std::span<float> out);
  // [labels]: of the text whose first row is batch.scored[index]; until the next Run.
  const float* scores(int index) const;

 private:
  Encoder(std::shared_ptr<const EncoderWeights> weights, const kernels::KernelTable& kernels,
          const Options& options);
  Status Allocate();

  template <typename Work>
  void ForEachPlace(const EncoderBatch& batch, Team& team, const Work& work);
  void Embed(const EncoderBatch& batch, Team& team);
  void Layer(int index, const EncoderBatch& batch, Team& team);
  // out = epilogue(x * linear), for all rows. `staging`: [rows][columns of x], overwritten; it may
  // be `x` itself if `x` is not used afterwards.
  void Apply(const Linear& linear, const float* x, float* staging, int rows,
             kernels::Epilogue epilogue, float* out, Team& team);
  void Quantize(const Linear& linear, const float* x, float* staging,
                const kernels::QuantizedRows& out, Team& team);
  void Observe(const float* x, int rows, std::vector<float>& peaks, Team& team);
  void Attend(int layer, const EncoderBatch& batch, Team& team);
  // Queries and keys, by their positions.
  void Rotate(const kernels::RopeTable& angles, const EncoderBatch& batch, Team& team);
  // out = LayerNorm(x + sum), of rows of `width`; `sum` may be null.
  void Norm(const LayerNormWeights& norm, const float* x, const float* sum, int rows, float* out,
            Team& team);
  void Score(const EncoderBatch& batch, Team& team);
  // out = epilogue(x * linear), of at most kOutputRows rows, by this thread alone. `linear` is in
  // floats.
  void Multiply(const Linear& linear, const float* x, int rows, kernels::Epilogue epilogue,
                int worker, float* out);
  // x = the dense modules of the rows at x; `other` is overwritten.
  void Project(float* x, float* other, int rows, int worker);
  void WriteLexical(const float* x, int rows, int worker, std::span<float> out);

  const std::shared_ptr<const EncoderWeights> weights_;
  const kernels::KernelTable kernels_;
  const Options options_;
  const kernels::SpanAttentionShape shape_;
  std::vector<kernels::SpanAttentionItem> items_;  // of the batch; written by Prepare
  EncoderPeaks* peaks_ = nullptr;

  // Scratch. R = max_rows.
  kernels::AlignedBuffer memory_;
  float* x_ = nullptr;       // [R][width] the residual stream
  float* qkv_ = nullptr;     // [R][3 * width]
  float* attn_ = nullptr;    // [R][width]
  float* sum_ = nullptr;     // [R][width] what is added to the residual stream
  float* wide_ = nullptr;    // [R][feed_forward]
  float* scores_ = nullptr;  // [max_scored][labels, padded to whole panels]
  // Scratch of each worker for the heads: 2 * [kOutputRows][output_cols_].
  std::vector<float*> outputs_;
  size_t output_cols_ = 0;
  std::byte* quantized_ = nullptr;  // of [R][max(width, feed_forward)]; int8 alone
  std::vector<std::byte*> gemm_scratch_, attention_scratch_;  // of each worker
};

float Activate(Activation activation, float x);
// The vector of one text from its rows [rows][width], rows >= 1. Sums in float64, rows ascending.
void PoolRows(const float* rows, int count, int width, Pooling pooling, float* out);
// The greater one; of a value that is not finite and one that is, the former, so that it shows in
// the vector.
float PoolMax(float a, float b);

}  // namespace tutti::model
