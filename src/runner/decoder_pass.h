// DecoderPass: prepares the forward passes of a decoder: the plans of attention for the rows of a
// step, and memory for the partial results of attention.
//
// Owner: a runner; its decoder outlives it. Thread: the engine thread; the batch is read by the
// compute threads. A step allocates nothing if an equally large one was prepared before.
#pragma once

#include <span>

#include "base/status.h"
#include "base/types.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention_plan.h"
#include "model/decoder.h"

namespace tutti::runner {

class DecoderPass {
 public:
  DecoderPass(const model::Decoder& decoder, int workers, bool share_prefixes)
      : decoder_(decoder), workers_(workers), share_prefixes_(share_prefixes) {}

  // Prepares a step whose rows are `tokens`, those of `sequences`. `window_sequences`: the same
  // rows with their blocks in layers with a window, if these have memory of their own; else empty.
  // The spans outlive the step. The batch has no KV memory yet; it is valid until the next call.
  // Errors: out_of_memory.
  Result<model::DecoderBatch> Prepare(std::span<const TokenId> tokens,
                                      std::span<const kernels::AttentionSequence> sequences,
                                      std::span<const kernels::AttentionSequence> window_sequences);

 private:
  const model::Decoder& decoder_;
  const int workers_;
  const bool share_prefixes_;
  kernels::AttentionPlan plan_;
  kernels::AttentionPlan window_plan_;  // of layers with a window
  kernels::AlignedBuffer partials_;     // grows to the largest step's need
};

}  // namespace tutti::runner
