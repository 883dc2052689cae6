// Memory for serving an encoder.
#include <algorithm>
#include <memory>
#include <utility>

#include "app/config/encoder_options.h"
#include "app/loading/model_plan.h"
#include "model/encoder_checkpoint.h"
#include "model/encoder_choice.h"
#include "runner/compute_pool.h"
#include "runner/cpu_encoder_runner.h"

namespace tutti::app {

Result<std::optional<model::EncoderDType>> EncoderDTypeOf(const ModelRef& ref,
                                                          const Settings& settings) {
  std::optional<model::EncoderDType> dtype;
  if (!ref.dtype.empty() || settings.SourceOf("dtype") != Source::kDefault) {
    ASSIGN_OR_RETURN(
        dtype, model::ParseEncoderDType(ref.dtype.empty() ? settings.Text("dtype") : ref.dtype));
  }
  return dtype;
}

Result<EncoderMemory> MeasureEncoder(const ModelRef& ref, const Settings& settings,
                                     const model::ModelFiles& files) {
  ASSIGN_OR_RETURN(const std::optional<model::EncoderDType> dtype, EncoderDTypeOf(ref, settings));
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, KernelsFromSettings(settings));
  ASSIGN_OR_RETURN(const auto checkpoint, model::EncoderCheckpoint::FromFiles(files));
  const int threads = ThreadsFromSettings(settings);
  ASSIGN_OR_RETURN(
      const model::EncoderChoice choice,
      model::ChooseEncoderWeights(checkpoint.config, *checkpoint.tensors, *checkpoint.tokenizer,
                                  {.dtype = dtype, .kernels = table, .threads = threads}));
  const engine::EncoderOptions options = EncodeOptionsFrom(settings);
  runner::CpuEncoderOptions run;
  run.kernels = table;
  run.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = threads});
  run.max_items = options.batch_items;
  run.max_tokens = options.batch_tokens;
  ASSIGN_OR_RETURN(const auto runner, runner::CpuEncoderRunner::Create(choice.weights, run));
  EncoderMemory memory;
  memory.dtype = model::EncoderDTypeName(choice.dtype());
  memory.weights = choice.weights->bytes();
  memory.activations = runner->scratch_bytes();
  memory.batch_items = runner->limits().max_items;
  memory.batch_tokens = runner->limits().max_tokens;
  memory.threads = threads;
  return memory;
}

}  // namespace tutti::app
