// CpuDecoderEmbedder: computes embeddings of texts with a decoder: the rows of the last layer after
// the model's last norm, pooled. Or scores: the last row times rows of the output head.
//
// Runs the engine's batches of texts through a model::Decoder of its own. Weights and compute
// threads are shared; scratch and KV memory are its own, and the KV memory, as large as one batch
// needs, is overwritten by every batch. A step takes up to `max_step_tokens` rows of one or more
// texts; a longer batch, or one long text, takes several steps. Owner: the code that creates the
// engine. Thread: Create on any, then the engine thread alone (it is worker 0 of the pool). Launch
// does the whole batch; Collect returns its status. Errors: a batch fails if memory for a step
// cannot be allocated. Bits: a text's embedding depends on its tokens alone, never on the batch, on
// how it was cut into steps or on the number of workers. A batch allocates nothing if an equally
// large one ran before and no dense module follows. A model whose rows see each other both ways
// takes each text in one step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/encoder_runner.h"
#include "kernels/kernels.h"
#include "model/decoder.h"
#include "model/vector_head.h"
#include "model/vector_modules.h"
#include "model/weights.h"
#include "runner/compute_pool.h"
#include "runner/decoder_pass.h"

namespace tutti::runner {

struct DecoderEmbedderOptions {
  const kernels::KernelTable* kernels = nullptr;  // required
  std::shared_ptr<ComputePool> pool;              // required; shared with the device's other models
  int max_items = 32;                             // texts of a batch
  int max_tokens = 1024;       // of a batch; raised to the longest text that is read
  int max_item_tokens = 2048;  // of a text; lowered to the model's context
  int max_step_tokens = 512;   // rows of one pass
  model::Pooling pooling = model::Pooling::kLast;
  model::VectorHead head;  // what becomes of the rows; where it scores, there are no vectors
};

class CpuDecoderEmbedder final : public engine::EncoderRunner {
 public:
  // Errors: out_of_memory. The model has no recurrent states.
  static Result<std::unique_ptr<CpuDecoderEmbedder>> Create(
      std::shared_ptr<const model::Weights> weights, const DecoderEmbedderOptions& options);

  // KV memory and scratch; not the weights.
  size_t memory_bytes() const { return kv_.size() + decoder_->scratch_bytes(); }

  engine::EncoderLimits limits() const override { return limits_; }
  void Launch(const engine::EncodeBatch& batch) override;
  Status Collect() override { return status_; }

 private:
  // The part of a text that is in the step.
  struct Part {
    int item = 0;
    int start = 0;      // of the text's rows
    int rows = 0;       // >= 1
    int first_row = 0;  // of the step
  };

  CpuDecoderEmbedder(const DecoderEmbedderOptions& options, engine::EncoderLimits limits,
                     std::unique_ptr<model::Decoder> decoder, kernels::AlignedBuffer kv);
  void LayOutBlocks(const engine::EncodeBatch& batch);
  // The next step's parts, from where the last one ended.
  void Fill(const engine::EncodeBatch& batch, size_t& item, int& row);
  Status RunStep(const engine::EncodeBatch& batch);
  void FinishPart(const engine::EncodeBatch& batch, const Part& part, int worker);
  float Score(const std::vector<float>& last_row) const;
  // `out`: [width]
  void PoolRow(const engine::EncodeItem& item, int index, int row, const float* values, float* out);
  // The dense modules of one pooled vector.
  void Project(const std::vector<float>& vector, std::span<float> out) const;

  const std::shared_ptr<ComputePool> pool_;
  const model::Pooling pooling_;
  const model::VectorHead head_;
  const engine::EncoderLimits limits_;
  const std::unique_ptr<model::Decoder> decoder_;
  kernels::AlignedBuffer kv_;

  // State of the batch in progress; members so that their memory is reused.
  std::vector<int32_t> blocks_;                        // 0, 1, ...: a text has consecutive ones
  std::vector<int32_t> first_block_;                   // [items] in blocks_
  std::vector<double> sums_;                           // [items][width], of mean pooling
  std::vector<std::vector<float>> pooled_;             // [items][width], before dense modules
  std::vector<std::vector<float>> normed_;             // [workers][width]
  std::vector<Part> parts_;                            // of the step
  std::vector<TokenId> tokens_;                        // of the step
  std::vector<kernels::AttentionSequence> sequences_;  // of the step
  DecoderPass pass_;
  Status status_;
};

}  // namespace tutti::runner
