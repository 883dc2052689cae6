// Outliers: columns of a decoder's activations that are far greater than the others.
//
// In most models a few columns of the residual stream are ten to a hundred times as great as the
// rest, the same ones for nearly every token. In int8 they would set the scale of the 31 values
// that share their block. They are found once, when the weights are loaded, and stay floats
// (kernels::QuantizedRows::outliers). The search runs a few tokens of fixed ids: its result depends
// on the weights alone, so that a row's bits never depend on what was computed before.
// Source: Dettmers et al., LLM.int8(), 2022, which searches in every step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"

namespace tutti::model {

class Weights;

// Ascending columns in [0, width), at most kernels::kMaxOutliers each; empty where keeping them
// would save little.
struct OutlierColumns {
  std::vector<std::vector<int32_t>> attention;     // [layers] of the input of Q, K and V
  std::vector<std::vector<int32_t>> feed_forward;  // [layers] of the input of gate and up; empty in
                                                   // a mixture, whose experts are not observed
  std::vector<int32_t> head;                       // of the input of the output head
};

// Receives the inputs of a decoder's matrices while it runs (Decoder::Options::observer). Called by
// one worker at a time, between two barriers.
class InputObserver {
 public:
  enum class Input { kAttention, kFeedForward };
  virtual ~InputObserver() = default;
  // `x`: one row after its norm, [width] floats, valid during the call.
  virtual void Observe(Input input, int layer, const float* x) = 0;
};

// Runs a decoder of its own over `weights` on the calling thread, with the machine's best
// instruction set: the columns are the same whichever set serves the model. Errors: out_of_memory.
Result<OutlierColumns> FindOutliers(std::shared_ptr<const Weights> weights);

}  // namespace tutti::model
