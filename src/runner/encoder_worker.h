// EncoderWorker: the encoder of one worker, for slices of a batch that the worker computes alone.
//
// One per compute thread, used by that thread only. Owns its scratch; shares the weights. Run
// allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/encoder_runner.h"
#include "kernels/kernels.h"
#include "model/encoder.h"
#include "model/team.h"

namespace tutti::runner {

class EncoderWorker {
 public:
  // `max_rows`: tokens of one slice. Errors: out_of_memory.
  static Result<std::unique_ptr<EncoderWorker>> Create(
      std::shared_ptr<const model::EncoderWeights> weights, const kernels::KernelTable& kernels,
      int max_items, int max_rows);

  // The pass over the batch's items [first, first + count); the encoder holds their rows until the
  // next call, counted from the first one's.
  void Run(const engine::EncodeBatch& batch, int first, int count);
  const model::Encoder& encoder() const { return *encoder_; }

 private:
  EncoderWorker(std::unique_ptr<model::Encoder> encoder, int max_items);

  const std::unique_ptr<model::Encoder> encoder_;
  model::PhaseBoard board_{1};
  model::Team::Position position_;
  std::vector<int32_t> offsets_;  // of the slice
  std::vector<int32_t> scored_;   // where its items begin whose scores are wanted
};

}  // namespace tutti::runner
