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
#include <span>
#include <vector>

#include "engine/encoder_runner.h"
#include "kernels/kernels.h"
#include "model/encoder.h"
#include "model/encoder_weights.h"
#include "model/team.h"
#include "runner/compute_pool.h"

namespace tutti::runner {

// --- slices ---
//
// A batch of texts is split into slices for workers that each compute whole texts by themselves. A
// worker with texts of its own waits for no other worker between the phases of a pass, and its rows
// stay in its own cache: this gains more than the last percent of balance.

// Maximum rows of a slice, unless one text alone has more: the states of 128 rows, including the
// wide ones between the two products of a feed-forward block, fit into a core's second-level cache
// along with the weights that stream through.
inline constexpr int kSliceRows = 128;

struct EncoderSlice {
  int first = 0, count = 0;  // items
};

// Contiguous slices of the items, whose rows begin at `offsets` ([items + 1]); into `slices`, whose
// memory is reused. Empty where the workers would not share the rows evenly enough: then all of
// them work on all rows together.
void CutSlices(std::span<const int32_t> offsets, int workers, std::vector<EncoderSlice>& slices);

// The encoder of one worker, for slices of a batch that the worker computes alone.
//
// One per compute thread, used by that thread only. Owns its scratch; shares the weights. Run
// allocates nothing.
class EncoderWorker {
 public:
  // `max_rows`: tokens of one slice. Errors: out_of_memory.
  static Result<std::unique_ptr<EncoderWorker>> Create(
      std::shared_ptr<const model::EncoderWeights> weights, const kernels::KernelTable& kernels,
      int max_items, int max_rows);

  // The pass over the batch's items [first, first + count); the encoder holds their rows until the
  // next call, counted from the first one's.
  void Run(const engine::EncodeBatch& batch, int first, int count);
  model::Encoder& encoder() { return *encoder_; }

 private:
  EncoderWorker(std::unique_ptr<model::Encoder> encoder, int max_items);

  const std::unique_ptr<model::Encoder> encoder_;
  model::PhaseBoard board_{1};
  model::Team::Position position_;
  std::vector<int32_t> offsets_;  // of the slice
  std::vector<int32_t> scored_;   // where its items begin whose scores are wanted
};

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
  size_t scratch_bytes() const;  // memory of the encoders: of all workers together, and of each

 private:
  CpuEncoderRunner(std::shared_ptr<ComputePool> pool, std::unique_ptr<model::Encoder> encoder,
                   std::vector<std::unique_ptr<EncoderWorker>> workers,
                   engine::EncoderLimits limits);
  void RunTogether(const engine::EncodeBatch& batch);  // all workers on all rows
  void RunInSlices(const engine::EncodeBatch& batch);  // slices_: each by one worker
  // On a compute thread: the item's floats, from `encoder`, in whose pass it begins at `first_row`
  // and is the `score`th whose scores are wanted. `worker`: of that encoder.
  void Finish(const engine::EncodeItem& item, model::Encoder& encoder, int worker, int first_row,
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
