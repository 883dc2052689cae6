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

// Fails the running test when the checkpoint does not load. `in_bf16`: activations in bfloat16,
// for weights of 16 bits with GemmKernels::bf16_pairs and for blocks with bf16_tiles.
TinyModel MakeTinyModel(const gguf::testing::CheckpointSpec& spec, model::WeightMode mode,
                        bool in_bf16 = false);

// The scalar kernels with products in the order of a tile unit.
const kernels::KernelTable& ScalarTiles();

// A runner over it with room for `sequences` sequences of the context.
std::unique_ptr<runner::CpuModelRunner> MakeTinyRunner(
    std::shared_ptr<const model::Weights> weights, const kernels::KernelTable& kernels,
    int workers = 2);
std::unique_ptr<runner::CpuModelRunner> MakeTinyRunner(
    std::shared_ptr<const model::Weights> weights, kernels::Isa isa, int workers = 2);

}  // namespace tutti::parity
