// OpenedModel: a model file or folder that can be loaded into a running engine (weights, runner,
// tokenizer, template). The kind of model selects the plan (model_plan.h) that does this. Device:
// what all loaded models share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "api/types.h"
#include "app/config/settings.h"
#include "app/loading/model_registry.h"
#include "base/clock.h"
#include "engine/device_loop.h"
#include "gateway/served_model.h"
#include "kernels/kernels.h"
#include "kv/disk/prefix_disk.h"
#include "model/decoder.h"
#include "runner/compute_pool.h"
#include "telemetry/metrics.h"
#include "telemetry/serving_metrics.h"

namespace tutti::app {

// Compute threads and engine loop that all models of a process share, so that they neither
// oversubscribe the cores nor run at the same time.
//
// Made by LocalInference and shared by its models. For use by one thread at a time, except where
// loop() itself allows more: pool() and Start() are called once before models are loaded at run
// time.
class Device {
 public:
  // `clock` outlives it. No thread is started yet.
  Device(const Clock* clock, int threads) : threads_(threads), loop_(clock) {}

  int threads() const { return threads_; }
  // The compute threads, started by the first call. Throws std::system_error where the system has
  // no more of them.
  const std::shared_ptr<runner::ComputePool>& pool();
  engine::DeviceLoop& loop() { return loop_; }
  // Memory level of the process; admission of requests to any model reads it. Any thread.
  std::atomic<api::LoadLevel>& memory_level() { return memory_level_; }
  void Start();  // the loop's thread; idempotent

 private:
  const int threads_;
  std::shared_ptr<runner::ComputePool> pool_;
  engine::DeviceLoop loop_;
  std::atomic<api::LoadLevel> memory_level_{api::LoadLevel::kGreen};
};

class ModelPlan;

struct LoadContext {
  const Settings* settings = nullptr;
  const Clock* clock = nullptr;
  telemetry::MetricsRegistry* metrics = nullptr;  // null: no metrics (library, run)
  std::string version;
  bool fuse = true;  // false: one operation at a time, to measure what fusion brings
  std::shared_ptr<kv::PrefixDisk> prefixes = nullptr;  // null: prefixes are kept in memory alone
  int pack_threads = 0;  // that pack the weights; 0: as many as compute
};

// A model whose header and options have been checked. Cheap: no tensor has been read. A server
// makes it before it opens its port, so that a bad file or option is refused first.
class OpenedModel {
 public:
  // Errors, also of Load(): those of the file (gguf_*, model_*, tokenizer_*), with its name;
  // invalid_value for options that do not fit the model or the machine, with the numbers.
  static Result<OpenedModel> Open(const ModelRef& ref, const LoadContext& context);
  ~OpenedModel();
  OpenedModel(OpenedModel&&) noexcept;

  // "llama Q4_1 on avx512vnni, 2 threads, 8 sequences, context 8192, 1412 KV blocks of fp16"
  const std::string& summary() const;
  const std::string& notice()
      const;               // what the operator should know ("context lowered to ..."), or empty
  bool generates() const;  // text; an encoder does not
  bool chats() const;      // it has a chat template
  int max_tokens() const;  // tokens of one sequence, of an encoder of one text
  // What clients see of the model, before Load(). What only loading finds out is missing: the
  // digest, an encoder's type, and the vectors of a decoder. status.memory_bytes: estimate of the
  // weights, the KV cache and the activations.
  const api::ModelInfo& info() const;

  // Reads and packs the weights and makes the engine; blocks for seconds. `progress` is called on
  // the calling thread with the bytes packed so far and the total; if it returns false, the load is
  // cancelled. Nothing runs until the device is started or its loop is driven by hand.
  Result<std::shared_ptr<const gateway::ServedModel>> Load(
      std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) &&;

 private:
  explicit OpenedModel(std::unique_ptr<ModelPlan> plan);
  std::unique_ptr<ModelPlan> plan_;
  std::string path_;
};

// Kernel table for --isa; "": the best one; "avx512" means avx512vnni. Errors: invalid_value, with
// the instruction sets of this machine.
Result<const kernels::KernelTable*> KernelsNamed(const std::string& isa);
Result<const kernels::KernelTable*> KernelsFromSettings(const Settings& settings);

// Type of the KV cache from --kv-dtype.
model::KvDtype KvDtypeFromSettings(const Settings& settings);

// For commands that generate text: refuses an encoder before its weights are read (invalid_value).
Status MustGenerate(const OpenedModel& model, const ModelRef& ref);
// For commands that chat: also refuses a model without a chat template; the error suggests
// `tutti run --raw`.
Status MustChat(const OpenedModel& model, const ModelRef& ref);

// Compute threads: --threads, or the cores this process may use.
int ThreadsFromSettings(const Settings& settings);

// Warning if there are more threads than cores, which makes every step slower; else "".
std::string ThreadsNotice(const Settings& settings);

}  // namespace tutti::app
