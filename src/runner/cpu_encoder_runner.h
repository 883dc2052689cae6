// CpuEncoderRunner: runs the engine's batches of texts on this machine's cores.
//
// Turns an EncodeBatch into one forward pass over all its tokens and pools or scores each item: a
// batch that can be shared evenly goes to the workers in slices of whole texts, any other to all of
// them together. Owns the encoders' scratch; shares the weights and, with other runners of the
// device, the compute threads. Owner: the composition root. Thread: Create anywhere, then the
// engine thread alone (it is worker 0 of the pool). Launch does the whole batch, and no batch
// fails; one that breaks its contract (tokens, offsets) is a bug of the engine and CHECKed. A batch
// allocates nothing once one like it has been seen.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/encoder_runner.h"
#include "kernels/kernels.h"
#include "model/encoder.h"
#include "model/encoder_weights.h"
#include "runner/compute_pool.h"
#include "runner/encoder_slices.h"
#include "runner/encoder_worker.h"

namespace tutti::runner {

struct CpuEncoderOptions {
  const kernels::KernelTable* kernels = nullptr;  // required
  std::shared_ptr<ComputePool> pool;              // required
  int max_items = 32;                             // items of a batch
  int max_tokens = 1024;  // of a batch; raised to the longest item the model reads
};

class CpuEncoderRunner final : public engine::EncoderRunner {
 public:
  // Errors: out_of_memory.
  static Result<std::unique_ptr<CpuEncoderRunner>> Create(
      std::shared_ptr<const model::EncoderWeights> weights, const CpuEncoderOptions& options);

  engine::EncoderLimits limits() const override { return limits_; }
  void Launch(const engine::EncodeBatch& batch) override;
  Status Collect() override { return OkStatus(); }

 private:
  CpuEncoderRunner(std::shared_ptr<ComputePool> pool, std::unique_ptr<model::Encoder> encoder,
                   std::vector<std::unique_ptr<EncoderWorker>> workers,
                   engine::EncoderLimits limits);
  void RunTogether(const engine::EncodeBatch& batch);  // all workers on all rows
  void RunInSlices(const engine::EncodeBatch& batch);  // slices_: each by one worker
  // On a compute thread: the item's floats, from `encoder`, in whose pass it begins at `first_row`
  // and is the `score`th whose scores are wanted.
  void Finish(const engine::EncodeItem& item, const model::Encoder& encoder, int first_row,
              int score);

  const std::shared_ptr<ComputePool> pool_;
  const std::unique_ptr<model::Encoder> encoder_;
  const std::vector<std::unique_ptr<EncoderWorker>> workers_;  // of each worker
  const engine::EncoderLimits limits_;
  std::vector<EncoderSlice> slices_;  // of the batch
  std::vector<int32_t> scored_;       // of the batch: where the items begin whose scores are wanted
  std::vector<int> score_of_;         // of each item: its place in scored_
};

}  // namespace tutti::runner
