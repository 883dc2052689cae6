// ChooseEncoderWeights: loads an encoder in the smallest type that keeps its vectors, and says how
// near they are.
//
// int8 is the default where the least cosine to float32 over the check texts is at least
// kLeastCosine. It has two forms: one scale per row with balanced columns, and one per 32, a fifth
// slower and more exact; the first that is near enough is taken, else bf16, else float32. A type
// that was asked for is loaded whatever its cosine is (of the two forms of int8 the nearer one when
// neither is near enough), and the cosine is told.
//
// Cost: the weights are packed once in float32 and once per form that is tried, and some 32 short
// texts pass through each; memory for the float32 form is needed first. `seconds` tells how long it
// took. float32 and bf16 that were asked for cost nothing beyond their own load, and no cosine is
// known then. Thread: one; starts `threads` - 1 more for the passes and joins them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/kernels.h"
#include "model/encoder_weights.h"
#include "model/tensor_store.h"
#include "tokenizer/tokenizer.h"

namespace tutti::model {

inline constexpr double kLeastCosine = 0.99;

struct ChooseOptions {
  std::optional<EncoderDType> dtype;  // asked for: kF32, kBf16 or kInt8; absent: the default
  const kernels::KernelTable* kernels = nullptr;  // required
  int threads = 1;
  std::function<bool(size_t, size_t)> progress = nullptr;  // of each load: EncoderWeights::Options
};

struct EncoderChoice {
  std::shared_ptr<const EncoderWeights> weights;
  std::optional<double> cosine;  // the least to float32 over the check texts; 1 for float32 itself
  double seconds = 0;            // choosing took beside the load of what was chosen

  EncoderDType dtype() const { return weights->dtype(); }
  // "int8, a scale per row (least cosine 0.9962 to f32 on 16 texts)"
  std::string ToString() const;
};

// "f32", "bf16", "int8", in any spelling (tensor/type_spelling.h). Error: invalid_value.
Result<EncoderDType> ParseEncoderDType(std::string_view name);

// Errors: as EncoderWeights::Load; model_nonfinite when float32 itself gives no numbers.
Result<EncoderChoice> ChooseEncoderWeights(const EncoderConfig& config, const TensorStore& store,
                                           const tokenizer::Tokenizer& tokenizer,
                                           const ChooseOptions& options);

}  // namespace tutti::model
