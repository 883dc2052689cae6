// OpenedModel: a model file or folder becomes a running engine: weights, runner, tokenizer,
// template, engine. What kind of model it is decides which plan (model_plan.h) does the wiring.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/model_registry.h"
#include "app/settings.h"
#include "base/clock.h"
#include "gateway/served_model.h"
#include "kernels/kernels.h"
#include "model/kv_dtype.h"
#include "telemetry/metrics.h"
#include "telemetry/serving_metrics.h"

namespace tutti::app {

class Device;
class ModelPlan;

struct LoadContext {
  const Settings* settings = nullptr;
  const Clock* clock = nullptr;
  telemetry::MetricsRegistry* metrics = nullptr;  // null: no metrics (library, run)
  std::string version;
  bool fuse = true;  // false: one operation at a time, to measure what fusion brings
};

// A model file that was found good as far as its header tells, and what it will need. Cheap: no
// tensor was read. Made before a server opens its port, so that a bad file or option is refused
// first.
class OpenedModel {
 public:
  // Errors, here and of Load(): those of the file (gguf_*, model_*, tokenizer_*), which name it and
  // of several the one at fault; invalid_value for options that do not fit the model or the
  // machine, with the numbers.
  static Result<OpenedModel> Open(const ModelRef& ref, const LoadContext& context);
  ~OpenedModel();
  OpenedModel(OpenedModel&&) noexcept;

  // "llama Q4_1 on avx512vnni, 2 threads, 8 lanes, context 8192, 1412 KV blocks of fp16"
  const std::string& summary() const;
  const std::string& notice()
      const;                // what the operator should know ("context lowered to ..."), or empty
  bool generates() const;   // text; an encoder does not
  bool chats() const;       // it has a chat template
  int most_tokens() const;  // tokens of one sequence, of an encoder of one text

  // Reads and packs the weights and starts the engine; blocking, seconds. `progress`: bytes packed
  // so far and in all, on the calling thread; false abandons the load (cancelled). Nothing runs
  // until the device is started, or its loop is driven by hand.
  Result<std::shared_ptr<const gateway::ServedModel>> Load(
      std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) &&;

 private:
  explicit OpenedModel(std::unique_ptr<ModelPlan> plan);
  std::unique_ptr<ModelPlan> plan_;
  std::string path_;
};

// The table that --isa names, or for "" the best one; "avx512" is avx512vnni. Errors:
// invalid_value, with what this machine has.
Result<const kernels::KernelTable*> KernelsNamed(const std::string& isa);
Result<const kernels::KernelTable*> KernelsFromSettings(const Settings& settings);

// What --kv-dtype says.
model::KvDtype KvDtypeFromSettings(const Settings& settings);

// For who needs text from the model: an encoder is refused before its weights are read
// (invalid_value).
Status MustGenerate(const OpenedModel& model, const ModelRef& ref);
// For who asks it questions: one without a chat template is refused likewise, with the command that
// continues texts.
Status MustChat(const OpenedModel& model, const ModelRef& ref);

// Compute threads: --threads, or the cores this process may use.
int ThreadsFromSettings(const Settings& settings);

// What is to be told of more threads than cores, or "": they wait for each other in every step.
std::string ThreadsNotice(const Settings& settings);

}  // namespace tutti::app
