#include "app/model_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <vector>

#include "base/cpus.h"
#include "engine/engine.h"
#include "gateway/engine_metrics.h"
#include "gateway/tokenizer_text.h"
#include "gguf/file.h"
#include "model/decoder.h"
#include "model/tokenizer_metadata.h"
#include "model/weights.h"
#include "runner/cpu_model_runner.h"
#include "tensor/dtype.h"
#include "tokenizer/tokenizer.h"

namespace tutti::app {

namespace {

// Everything one served model is made of, destroyed from the bottom up: the engine first, then what
// it drives.
struct ModelInstance {
  std::shared_ptr<const model::Weights> weights;
  std::unique_ptr<runner::CpuModelRunner> runner;
  std::unique_ptr<gateway::TokenizerText> text;
  std::shared_ptr<telemetry::ServingMetrics> metrics;
  std::unique_ptr<gateway::EngineMetrics> observer;
  std::unique_ptr<engine::Engine> engine;
};

constexpr int kDefaultContextCap = 8192;

Duration Millis(double ms) { return Duration(static_cast<int64_t>(ms * 1e6)); }

engine::EngineOptions EngineOptionsFrom(const Settings& settings) {
  engine::EngineOptions options;
  engine::SchedulerOptions& s = options.scheduler;
  const std::string& strategy = settings.Text("strategy");
  s.strategy = strategy == "interleaved" ? engine::Strategy::kInterleaved
               : strategy == "blocking"  ? engine::Strategy::kBlocking
               : strategy == "static"    ? engine::Strategy::kStatic
                                         : engine::Strategy::kContinuous;
  s.admission = settings.Text("sched.admission") == "no_evict" ? engine::Admission::kNoEvict
                                                               : engine::Admission::kPack;
  s.lanes = static_cast<int>(settings.Int("lanes"));
  if (const auto chunk = settings.OptionalInt("prefill-chunk")) {
    s.prefill_chunk = s.prefill_chunk_alone = static_cast<int>(*chunk);
  }
  s.itl_target = Millis(settings.Number("sched.itl_target_ms"));
  s.prefix_cache = settings.On("prefix-cache");
  s.static_batch = static_cast<int>(settings.Int("sched.static_batch"));
  s.static_wait = Millis(settings.Number("sched.static_wait_ms"));
  options.queue.requests = static_cast<int>(settings.Int("queue"));
  const double age_s = settings.Number("sched.queue_age_s");
  options.queue.age = age_s > 0 ? Millis(age_s * 1e3) : Duration::max();
  return options;
}

// The context a sequence may use, and what to tell the operator about it: what was asked for, else
// the model's own up to 8192. More than the model's is refused; more than the KV cache holds is
// refused where it was asked for, else lowered with a notice.
Result<int> ChooseContext(const Settings& settings, int model_context, int64_t pool_tokens,
                          size_t block_bytes, std::string& notice) {
  const auto asked = settings.OptionalInt("context");
  const int64_t wanted = asked.value_or(std::min(model_context, kDefaultContextCap));
  if (wanted > model_context) {
    return InvalidArgument(
               "invalid_value",
               fmt::format("--context {} is more than the {} tokens the model was made for", wanted,
                           model_context))
        .WithParam("context");
  }
  if (wanted <= pool_tokens) return static_cast<int>(wanted);
  const int64_t needed =
      (wanted + kBlockTokens - 1) / kBlockTokens * static_cast<int64_t>(block_bytes);
  if (asked.has_value() || pool_tokens == 0) {
    return InvalidArgument("invalid_value",
                           fmt::format("a context of {} tokens needs {} bytes of KV cache, and "
                                       "--kv-cache-bytes {} holds "
                                       "{} tokens; raise it or lower --context",
                                       wanted, needed, settings.Int("kv-cache-bytes"), pool_tokens))
        .WithParam("context");
  }
  notice = fmt::format("context lowered from {} to {} tokens: all that --kv-cache-bytes {} holds",
                       wanted, pool_tokens, settings.Text("kv-cache-bytes"));
  return static_cast<int>(pool_tokens);
}

// A pool that was asked for must fit before the weights are packed. The default is not judged: its
// pages are taken as they are used.
Status CheckKvFits(const Settings& settings) {
  if (settings.SourceOf("kv-cache-bytes") == Source::kDefault) return OkStatus();
  const auto asked = static_cast<uint64_t>(settings.Int("kv-cache-bytes"));
  const uint64_t available = AvailableMemory();
  if (available == 0 || asked <= available) return OkStatus();
  // Not a bad value: another machine, or this one later, has the memory.
  return ResourceExhausted("out_of_memory",
                           fmt::format("--kv-cache-bytes {} is more than the {:.1f} GiB of memory "
                                       "that are free on this machine",
                                       settings.Text("kv-cache-bytes"),
                                       static_cast<double>(available) / (1 << 30)))
      .WithParam("kv-cache-bytes");
}

// The type most bytes of the file's tensors are in.
std::string MainType(const gguf::File& file) {
  std::map<std::string, uint64_t> bytes;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    bytes[std::string(tensor::Name(tensor.dtype()))] += tensor.bytes;
  }
  std::string best;
  for (const auto& [name, total] : bytes) {
    if (best.empty() || total > bytes[best]) best = name;
  }
  return best;
}

Result<std::optional<tokenizer::ChatTemplate>> CompileTemplate(
    const tokenizer::Tokenizer& tokenizer) {
  std::optional<tokenizer::ChatTemplate> none;
  if (tokenizer.chat_template().empty()) return none;
  const tokenizer::Vocabulary& vocabulary = tokenizer.vocabulary();
  const auto text = [&](TokenId id) {
    return vocabulary.Contains(id) ? std::string(vocabulary.Text(id)) : std::string();
  };
  const tokenizer::SpecialIds& ids = vocabulary.special();
  ASSIGN_OR_RETURN(
      tokenizer::ChatTemplate compiled,
      tokenizer::ChatTemplate::Compile(
          tokenizer.chat_template(), {text(ids.bos), text(ids.eos), text(ids.unk), text(ids.pad)}));
  return std::optional<tokenizer::ChatTemplate>(std::move(compiled));
}

}  // namespace

Status InModelFile(Status status, const ModelRef& ref) {
  return FindOption(status.param()) != nullptr ? std::move(status)
                                               : std::move(status).WithContext(ref.path);
}

uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kib = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kib) return kib << 10;
  }
  return 0;
}

int ThreadsFromSettings(const Settings& settings) {
  return static_cast<int>(settings.OptionalInt("threads").value_or(UsableCores()));
}

Result<const kernels::KernelTable*> KernelsFromSettings(const Settings& settings) {
  std::optional<std::string> forced;
  if (settings.IsSet("isa"))
    forced = settings.Text("isa") == "avx512" ? "avx512vnni" : settings.Text("isa");
  return kernels::SelectKernels(forced);
}

struct OpenedModel::Parts {
  ModelRef ref;
  LoadContext context;
  const kernels::KernelTable* table = nullptr;
  std::shared_ptr<const gguf::File> file;
  std::shared_ptr<gateway::ServedModel> served = std::make_shared<gateway::ServedModel>();
  model::WeightMode mode = model::WeightMode::kInt8;
  engine::EngineOptions engine_options;
  runner::CpuRunnerOptions runner_options;
  std::string summary, notice;
};

OpenedModel::OpenedModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
OpenedModel::~OpenedModel() = default;
OpenedModel::OpenedModel(OpenedModel&&) noexcept = default;
const std::shared_ptr<telemetry::ServingMetrics>& OpenedModel::metrics() const {
  return parts_->served->metrics;
}
const std::string& OpenedModel::summary() const { return parts_->summary; }
const std::string& OpenedModel::notice() const { return parts_->notice; }

Result<OpenedModel> OpenedModel::Open(const ModelRef& ref, const LoadContext& context) {
  const Settings& settings = *context.settings;
  auto parts = std::make_unique<Parts>();
  parts->ref = ref;
  parts->context = context;
  if (settings.Text("dtype") == "bf16") {
    return InvalidArgument(
               "invalid_value",
               "--dtype bf16 is not offered for decoders in this release; use int8 or f32")
        .WithParam("dtype");
  }
  parts->mode =
      settings.Text("dtype") == "f32" ? model::WeightMode::kF32 : model::WeightMode::kInt8;
  ASSIGN_OR_RETURN(parts->table, KernelsFromSettings(settings));
  ASSIGN_OR_RETURN(parts->file, gguf::File::Open(ref.path));
  if (parts->file->tensors().empty()) {
    return InvalidArgument(
        "model_tensor_missing",
        "the file holds a vocabulary and no weights: good for `tokenize` and `inspect` only");
  }
  ASSIGN_OR_RETURN(const model::ModelConfig config, model::ReadModelConfig(*parts->file));
  ASSIGN_OR_RETURN(tokenizer::TokenizerSpec spec, model::ReadTokenizerSpec(parts->file->header()));
  gateway::ServedModel& served = *parts->served;
  ASSIGN_OR_RETURN(served.tokenizer, tokenizer::Tokenizer::Create(std::move(spec)));
  ASSIGN_OR_RETURN(served.chat_template, CompileTemplate(*served.tokenizer));
  RETURN_IF_ERROR(model::CheckVocabulary(config, *served.tokenizer));

  const size_t block_bytes = model::Decoder::KvBlockBytes(config, parts->mode, *parts->table);
  const int64_t blocks = settings.Int("kv-cache-bytes") / static_cast<int64_t>(block_bytes);
  ASSIGN_OR_RETURN(const int context_tokens,
                   ChooseContext(settings, config.context_length, blocks * kBlockTokens,
                                 block_bytes, parts->notice));
  RETURN_IF_ERROR(CheckKvFits(settings));
  parts->engine_options = EngineOptionsFrom(settings);
  const engine::SchedulerOptions& scheduler = parts->engine_options.scheduler;
  runner::CpuRunnerOptions& run = parts->runner_options;
  run.kernels = parts->table;
  run.compute.workers = ThreadsFromSettings(settings);
  run.kv_bytes = static_cast<size_t>(settings.Int("kv-cache-bytes"));
  run.context = context_tokens;
  run.max_step_tokens =
      std::max(scheduler.prefill_chunk_alone, scheduler.prefill_chunk) + scheduler.lanes;
  run.max_step_slices = std::max(scheduler.lanes, scheduler.static_batch) + 1;

  served.info.id = ref.served_name;
  served.info.created_unix_s = std::chrono::duration_cast<std::chrono::seconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count();
  served.info.max_model_len = context_tokens;
  served.info.vocab_size = config.vocab_size;
  served.info.architecture = config.architecture;
  served.info.quantisation = MainType(*parts->file);
  ASSIGN_OR_RETURN(served.info.digest, parts->file->HeaderDigest());
  if (context.metrics != nullptr) {
    served.metrics = std::make_shared<telemetry::ServingMetrics>(
        *context.metrics,
        telemetry::ServingMetrics::Options{.model = ref.served_name,
                                           .vllm_aliases = settings.On("metrics.vllm"),
                                           .max_model_len = context_tokens,
                                           .version = context.version,
                                           .isa = std::string(kernels::IsaName(parts->table->isa)),
                                           .architecture = config.architecture,
                                           .quantisation = served.info.quantisation,
                                           .digest = served.info.digest,
                                           .block_tokens = kBlockTokens,
                                           .kv_blocks = blocks});
  }
  parts->summary = fmt::format(
      "{} {} on {}, {} thread{}, {} lane{}, context {}, {} KV block{}", config.architecture,
      served.info.quantisation, kernels::IsaName(parts->table->isa), run.compute.workers,
      run.compute.workers == 1 ? "" : "s", scheduler.lanes, scheduler.lanes == 1 ? "" : "s",
      context_tokens, blocks, blocks == 1 ? "" : "s");
  return OpenedModel(std::move(parts));
}

Result<std::shared_ptr<const gateway::ServedModel>> OpenedModel::Load(
    std::function<bool(size_t, size_t)> progress, bool start_engine) && {
  Parts& parts = *parts_;
  auto instance = std::make_shared<ModelInstance>();
  model::LoadOptions load;
  load.mode = parts.mode;
  load.threads = parts.runner_options.compute.workers;
  load.progress = std::move(progress);
  ASSIGN_OR_RETURN(instance->weights, model::Weights::Load(*parts.file, load));
  RETURN_IF_ERROR(parts.file->CheckUnchanged());
  ASSIGN_OR_RETURN(instance->runner,
                   runner::CpuModelRunner::Create(instance->weights, parts.runner_options));

  gateway::ServedModel& served = *parts.served;
  instance->text = std::make_unique<gateway::TokenizerText>(served.tokenizer);
  instance->metrics = served.metrics;
  if (served.metrics != nullptr)
    instance->observer = std::make_unique<gateway::EngineMetrics>(*served.metrics);
  instance->engine = std::make_unique<engine::Engine>(
      parts.engine_options, engine::EngineDependencies{.runner = instance->runner.get(),
                                                       .text = instance->text.get(),
                                                       .clock = parts.context.clock,
                                                       .observer = instance->observer.get()});
  if (served.metrics != nullptr) {
    served.metrics->SetEngineGauges(
        [weak = std::weak_ptr<ModelInstance>(instance),
         clock = parts.context.clock]() -> telemetry::ServingMetrics::EngineGauges {
          const std::shared_ptr<ModelInstance> alive = weak.lock();
          if (alive == nullptr) return {};
          return gateway::ReadGauges(*alive->engine, *clock);
        });
  }
  if (start_engine) instance->engine->Start();
  served.info.max_model_len = instance->engine->max_model_len();
  served.engine = std::shared_ptr<engine::Engine>(instance, instance->engine.get());
  return std::shared_ptr<const gateway::ServedModel>(std::move(parts.served));
}

}  // namespace tutti::app
