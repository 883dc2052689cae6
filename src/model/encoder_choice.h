// ChooseEncoderWeights: loads an encoder in the smallest type that preserves its embeddings, and
// reports their similarity to float32.
//
// int8 is the default if the minimum cosine similarity to float32 over the check texts is at least
// kMinCosine: of the vectors that requests get (of each token, with the vocabulary's width or
// behind Dense modules), and of the pooled rows of a classifier. It has two forms: one scale per
// row with balanced columns, and one per 32, a fifth slower and more exact. The first of them that
// reaches the minimum is used, else bf16, else float32. A type that the caller requires is loaded
// even if its cosine is below the minimum (for int8 the form with the higher cosine if neither
// reaches the minimum), and the cosine is reported.
//
// Cost: the weights are packed once in float32 and once for each form that is tried, and some 32
// short texts are computed with each; memory for the float32 form is needed first. `seconds` is the
// time that this took. A required float32 or bf16 costs nothing beyond its own load, and its cosine
// is not measured. Thread: one; starts `threads` - 1 more for the passes and joins them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/kernels.h"
#include "model/encoder_weights.h"
#include "model/tensor_store.h"
#include "tokenizer/tokenizer.h"

namespace tutti::model {

inline constexpr double kMinCosine = 0.99;

struct ChooseOptions {
  std::optional<EncoderDType> dtype;  // asked for: kF32, kBf16 or kInt8; absent: the default
  const kernels::KernelTable* kernels = nullptr;  // required
  int threads = 1;
  std::function<bool(size_t, size_t)> progress = nullptr;  // of each load: EncoderWeights::Options
};

struct EncoderChoice {
  std::shared_ptr<const EncoderWeights> weights;
  std::optional<double> cosine;  // the least to float32 over the check texts; 1 for float32 itself
  double seconds = 0;            // time to choose, without the load of the chosen weights

  EncoderDType dtype() const { return weights->dtype(); }
  // "int8, a scale per row (minimum cosine 0.9962 to f32 on 16 texts)"
  std::string ToString() const;
};

// "f32", "bf16", "int8", in any spelling (tensor/dtype.h). Error: invalid_value.
Result<EncoderDType> ParseEncoderDType(std::string_view name);

// Errors: as EncoderWeights::Load; model_nonfinite if float32 itself gives NaN or infinity.
Result<EncoderChoice> ChooseEncoderWeights(const EncoderConfig& config, const TensorStore& store,
                                           const tokenizer::Tokenizer& tokenizer,
                                           const ChooseOptions& options);

// Texts to find the magnitude of an encoder's activations, and others to compare the results of a
// smaller type with float32. Languages, scripts, code, numbers, single words: rare parts of a
// vocabulary show larger errors than average prose.
std::span<const std::string_view> PeakTexts();
std::span<const std::string_view> CheckTexts();  // none of PeakTexts()

}  // namespace tutti::model
