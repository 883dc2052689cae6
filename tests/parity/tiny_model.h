// Generated checkpoints of a few layers, loaded for the runner and, from the same bytes, for the
// plain reference.
#pragma once

#include <memory>

#include "gguf/testing/checkpoint.h"
#include "kernels/kernels.h"
#include "model/weights.h"
#include "reference_llama.h"
#include "runner/cpu_model_runner.h"

namespace tutti::parity {

struct TinyModel {
  std::shared_ptr<const model::Weights> weights;
  ReferenceLlama reference;  // holds the dequantised tensors
};

// Fails the running test when the checkpoint does not load.
TinyModel MakeTinyModel(const gguf::testing::CheckpointSpec& spec, model::WeightMode mode,
                        bool bf16_pairs = false);

// A runner over it with room for `sequences` sequences of the context.
std::unique_ptr<runner::CpuModelRunner> MakeTinyRunner(
    std::shared_ptr<const model::Weights> weights, kernels::Isa isa, int workers = 2);

}  // namespace tutti::parity
