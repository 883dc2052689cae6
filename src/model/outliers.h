// Outliers: columns of a decoder's activations that are far greater than the others.
//
// In most models a few columns of the residual stream are ten to a hundred times as great as the
// rest, the same ones for nearly every token. In int8 they would set the step of the 31 values that
// share their block. So they are looked for once, when the weights are loaded, and stay floats
// (kernels::QuantizedRows::outliers). They are found by running a few tokens of fixed ids: they
// depend on the weights alone, so that a row's bits never depend on what was computed before.
// Source: Dettmers et al., LLM.int8(), 2022, where every step looks for them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"

namespace tutti::model {

class Weights;

// Ascending columns, at most kernels::kMaxOutliers each; none where they would change little.
struct OutlierColumns {
  std::vector<std::vector<int32_t>> attention;     // [layers] of the input of Q, K and V
  std::vector<std::vector<int32_t>> feed_forward;  // [layers] of the input of gate and up
  std::vector<int32_t> head;                       // of the input of the output head
};

// What a decoder shows of the inputs of its matrices while it runs (Decoder::Options::observer).
class InputObserver {
 public:
  enum class Input { kAttention, kFeedForward };
  virtual ~InputObserver() = default;
  // `x`: one row behind its norm, [width] floats.
  virtual void Observe(Input input, int layer, const float* x) = 0;
};

// The same for every instruction set of a machine: the best one looks. Errors: out_of_memory.
Result<OutlierColumns> FindOutliers(std::shared_ptr<const Weights> weights);

}  // namespace tutti::model
