// A decoder's GGUF file or folder becomes a running engine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "app/draft_plan.h"
#include "app/encode_options.h"
#include "app/model_plan.h"
#include "app/system_memory.h"
#include "engine/encoder_engine.h"
#include "engine/engine.h"
#include "gateway/engine_metrics.h"
#include "gateway/tokenizer_text.h"
#include "kernels/pack.h"
#include "model/decoder.h"
#include "model/decoder_checkpoint.h"
#include "model/tokenizer_metadata.h"
#include "model/weights.h"
#include "packed/format.h"
#include "runner/cpu_decoder_embedder.h"
#include "runner/cpu_model_runner.h"
#include "tensor/dtype.h"
#include "tensor/transcoded.h"
#include "tokenizer/tokenizer.h"

namespace tutti::app {
namespace {

// Everything one served model is made of, destroyed from the bottom up: the engine first, then what
// it drives.
struct DecoderInstance {
  std::shared_ptr<Device> device;
  std::shared_ptr<const model::Weights> weights;
  std::unique_ptr<runner::CpuModelRunner> runner, draft;
  std::unique_ptr<gateway::TokenizerText> text;
  std::shared_ptr<telemetry::ServingMetrics> metrics;
  std::unique_ptr<gateway::EngineMetrics> observer;
  std::unique_ptr<engine::Engine> engine;
  // Where it also gives vectors.
  std::unique_ptr<runner::CpuDecoderEmbedder> embedder;
  std::shared_ptr<telemetry::EncoderMetrics> encoder_metrics;
  std::unique_ptr<gateway::EncoderEngineMetrics> encoder_observer;
  std::unique_ptr<engine::EncoderEngine> encoder;
};

telemetry::ServingMetrics::EngineGauges ReadGauges(const DecoderInstance& instance,
                                                   const Clock& clock) {
  telemetry::ServingMetrics::EngineGauges gauges = gateway::ReadGauges(*instance.engine, clock);
  if (instance.encoder != nullptr) {
    const double age_s = gateway::ReadGauges(*instance.encoder, clock).heartbeat_age_s;
    gauges.heartbeat_age_s = std::max(gauges.heartbeat_age_s, age_s);
  }
  return gauges;
}

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
  s.itl_target = FromSeconds(settings.Number("sched.itl_target_ms") / 1e3);
  s.prefix_cache = settings.On("prefix-cache");
  s.static_batch = static_cast<int>(settings.Int("sched.static_batch"));
  s.static_wait = FromSeconds(settings.Number("sched.static_wait_ms") / 1e3);
  options.queue.requests = static_cast<int>(settings.Int("queue"));
  const double age_s = settings.Number("sched.queue_age_s");
  options.queue.age = age_s > 0 ? FromSeconds(age_s) : Duration::max();
  return options;
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

void Add(std::string& notice, const std::string& text) {
  notice += (notice.empty() || text.empty() ? "" : "; ") + text;
}

// Types that no kernel computes with: what they become, and what that costs.
void NoteTranscoded(const model::TensorStore& tensors, std::string& notice) {
  std::map<tensor::DType, int> found;
  for (const model::StoredTensor& tensor : tensors.tensors()) {
    if (tensor::IsTranscoded(tensor.dtype) && tensor.shape.rows() > 1) ++found[tensor.dtype];
  }
  for (const auto& [type, count] : found) {
    Add(notice,
        fmt::format("{} tensors of type {} are computed as {} ({})", count, tensor::Name(type),
                    kernels::WeightFormatName(kernels::NativeFormat(type)),
                    kernels::PackingLoss(type)));
  }
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

class DecoderPlan final : public ModelPlan {
 public:
  Result<std::shared_ptr<const gateway::ServedModel>> Load(
      std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) override;

  // The file and the options, one after the other; each may refuse.
  Status ReadModel();   // tokenizer, template
  Status PlanDraft();   // the model that proposes tokens, where there is one
  Status SizeMemory();  // KV cache and context, the engine's and the runner's limits
  Status Describe(const ModelRef& ref);  // what clients, metrics and the operator are told

  // The last token's row as a vector of a text, normalised: what a decoder can give without having
  // been trained for it.
  Status AddVectors(const std::shared_ptr<DecoderInstance>& instance);

  LoadContext context;
  const kernels::KernelTable* table = nullptr;
  model::DecoderCheckpoint checkpoint;
  std::shared_ptr<gateway::ServedModel> served_model = std::make_shared<gateway::ServedModel>();
  std::string dtype = "int8";
  model::WeightMode mode = model::WeightMode::kInt8;  // of dtype
  model::KvDtype kv_dtype = model::KvDtype::kByWeights;
  model::ModelConfig config;
  int64_t kv_blocks = 0;
  engine::EngineOptions engine_options;
  runner::CpuRunnerOptions runner_options;
  std::optional<DraftPlan> draft;
};

Result<std::shared_ptr<const gateway::ServedModel>> DecoderPlan::Load(
    std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) {
  auto instance = std::make_shared<DecoderInstance>();
  model::LoadOptions load;
  load.mode = mode;
  load.threads = device->threads();
  load.bf16_pairs = table->gemm.bf16_pairs;
  load.fuse = context.fuse;
  load.progress = std::move(progress);
  ASSIGN_OR_RETURN(instance->weights, model::Weights::Load(checkpoint, load));
  if (context.settings->IsSet("cache.redis")) {
    // Servers on another instruction set, or of another version, compute other bits.
    ASSIGN_OR_RETURN(const std::string content, checkpoint.ContentDigest());
    served_model->identity =
        fmt::format("{} {} {} {} {}", content, kernels::IsaName(table->isa), context.version, dtype,
                    model::KvFormatName(model::KvFormatOf(kv_dtype, mode, *table)));
  }
  RETURN_IF_ERROR(checkpoint.tensors->CheckUnchanged());
  runner_options.pool = device->pool();
  ASSIGN_OR_RETURN(instance->runner,
                   runner::CpuModelRunner::Create(instance->weights, runner_options));
  if (draft.has_value()) {
    ASSIGN_OR_RETURN(instance->draft, draft->Load(load.progress, device->pool()));
  }

  gateway::ServedModel& served = *served_model;
  instance->text = std::make_unique<gateway::TokenizerText>(served.tokenizer);
  instance->metrics = served.metrics;
  if (served.metrics != nullptr)
    instance->observer = std::make_unique<gateway::EngineMetrics>(*served.metrics);
  instance->engine = std::make_unique<engine::Engine>(
      engine_options,
      engine::EngineDependencies{.runner = instance->runner.get(),
                                 .text = instance->text.get(),
                                 .clock = context.clock,
                                 .observer = instance->observer.get(),
                                 .memory_level = &device->memory_level(),
                                 .draft = instance->draft.get()},
      &device->loop());
  instance->device = std::move(device);
  served.info.max_model_len = instance->engine->max_model_len();
  if (context.settings->On("encode.decoders")) RETURN_IF_ERROR(AddVectors(instance));
  if (served.metrics != nullptr) {
    served.metrics->SetEngineGauges(
        [weak = std::weak_ptr<DecoderInstance>(instance),
         clock = context.clock]() -> telemetry::ServingMetrics::EngineGauges {
          const std::shared_ptr<DecoderInstance> alive = weak.lock();
          if (alive == nullptr) return {};
          return ReadGauges(*alive, *clock);
        });
  }
  served.engine = std::shared_ptr<engine::Engine>(instance, instance->engine.get());
  return std::shared_ptr<const gateway::ServedModel>(std::move(served_model));
}

Status DecoderPlan::AddVectors(const std::shared_ptr<DecoderInstance>& instance) {
  engine::EncoderOptions options = EncodeOptionsFrom(*context.settings);
  runner::DecoderEmbedderOptions run;
  run.kernels = table;
  run.pool = instance->device->pool();
  run.max_items = options.batch_items;
  run.max_tokens = options.batch_tokens;
  run.max_item_tokens = std::min(run.max_item_tokens, served_model->info.max_model_len);
  ASSIGN_OR_RETURN(instance->embedder, runner::CpuDecoderEmbedder::Create(instance->weights, run));
  const engine::EncoderLimits limits = instance->embedder->limits();
  options.batch_tokens = std::max(options.batch_tokens, limits.max_item_tokens);
  if (context.metrics != nullptr) {
    instance->encoder_metrics = std::make_shared<telemetry::EncoderMetrics>(
        *context.metrics, telemetry::EncoderMetrics::Options{.model = served_model->info.id,
                                                             .max_tokens = limits.max_item_tokens,
                                                             .beside_decoder = true});
    instance->encoder_observer =
        std::make_unique<gateway::EncoderEngineMetrics>(*instance->encoder_metrics);
  }
  instance->encoder = std::make_unique<engine::EncoderEngine>(
      options,
      engine::EncoderDependencies{.runner = instance->embedder.get(),
                                  .clock = context.clock,
                                  .observer = instance->encoder_observer.get(),
                                  .memory_level = &instance->device->memory_level()},
      &instance->device->loop());
  auto encoder = std::make_shared<gateway::ServedEncoder>();
  encoder->engine = std::shared_ptr<engine::EncoderEngine>(instance, instance->encoder.get());
  encoder->normalize = true;
  encoder->max_tokens = limits.max_item_tokens;
  encoder->metrics = instance->encoder_metrics;
  if (instance->encoder_metrics != nullptr) {
    instance->encoder_metrics->SetGauges(
        [weak = std::weak_ptr<DecoderInstance>(instance), clock = context.clock] {
          const std::shared_ptr<DecoderInstance> alive = weak.lock();
          return alive == nullptr ? telemetry::EncoderMetrics::Gauges{}
                                  : gateway::ReadGauges(*alive->encoder, *clock);
        });
  }
  served_model->encoder = std::move(encoder);
  api::EncoderInfo& info = served_model->info.encoder.emplace();
  info.width = limits.width;
  info.cuts = context.settings->Text("encode.dimensions") == "any";
  info.pooling = model::PoolingName(run.pooling);
  info.batch_items = options.batch_items;
  info.batch_tokens = options.batch_tokens;
  info.batch_window = options.window;
  return OkStatus();
}

Status DecoderPlan::ReadModel() {
  config = checkpoint.config;
  gateway::ServedModel& served = *served_model;
  ASSIGN_OR_RETURN(served.tokenizer, tokenizer::Tokenizer::Create(std::move(checkpoint.tokenizer)));
  ASSIGN_OR_RETURN(served.chat_template, CompileTemplate(*served.tokenizer));
  chats = served.chat_template.has_value();
  return model::CheckVocabulary(config, *served.tokenizer);
}

Status DecoderPlan::SizeMemory() {
  const Settings& settings = *context.settings;
  kv_dtype = KvDtypeFromSettings(settings);
  const size_t block_bytes = model::Decoder::KvBlockBytes(config, mode, *table, kv_dtype);
  kv_blocks = settings.Int("kv-cache-bytes") / static_cast<int64_t>(block_bytes);
  runner::CpuRunnerOptions& run = runner_options;
  ASSIGN_OR_RETURN(run.context, ChooseContext(settings, config.context_length,
                                              kv_blocks * kBlockTokens, block_bytes, notice));
  RETURN_IF_ERROR(CheckKvFits(settings));
  most_tokens = run.context;
  engine_options = EngineOptionsFrom(settings);
  const engine::SchedulerOptions& scheduler = engine_options.scheduler;
  run.kernels = table;
  run.kv_bytes = static_cast<size_t>(settings.Int("kv-cache-bytes"));
  run.kv_dtype = kv_dtype;
  run.max_step_tokens =
      std::max(scheduler.prefill_chunk_alone, scheduler.prefill_chunk) + scheduler.lanes;
  run.max_step_slices = std::max(scheduler.lanes, scheduler.static_batch) + 1;
  return OkStatus();
}

Status DecoderPlan::PlanDraft() {
  const Settings& settings = *context.settings;
  ASSIGN_OR_RETURN(const Speculate how, SpeculateFromSettings(settings));
  engine_options.scheduler.speculate = how != Speculate::kOff;
  if (how == Speculate::kDraft) {
    ASSIGN_OR_RETURN(draft, DraftPlan::Open(settings, {.tokenizer = served_model->tokenizer.get(),
                                                       .kernels = table,
                                                       .context = runner_options.context,
                                                       .lanes = engine_options.scheduler.lanes}));
  } else if (settings.IsSet("draft")) {
    Add(notice, "--draft is not loaded: --speculate " + settings.Text("speculate"));
  }
  return OkStatus();
}

Status DecoderPlan::Describe(const ModelRef& ref) {
  gateway::ServedModel& served = *served_model;
  served.info.id = ref.served_name;
  served.info.created_unix_s = std::chrono::duration_cast<std::chrono::seconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count();
  served.info.max_model_len = runner_options.context;
  served.info.vocab_size = config.vocab_size;
  served.info.architecture = config.architecture;
  served.info.quantisation = checkpoint.TypeName();
  if (mode == model::WeightMode::kInt8) NoteTranscoded(*checkpoint.tensors, notice);
  Add(notice, UnreadNotice(ref, checkpoint.unread_bytes));
  served.info.digest = checkpoint.digest;
  if (context.metrics != nullptr) {
    served.metrics = std::make_shared<telemetry::ServingMetrics>(
        *context.metrics,
        telemetry::ServingMetrics::Options{.model = ref.served_name,
                                           .vllm_aliases = context.settings->On("metrics.vllm"),
                                           .max_model_len = runner_options.context,
                                           .version = context.version,
                                           .isa = std::string(kernels::IsaName(table->isa)),
                                           .architecture = config.architecture,
                                           .quantisation = served.info.quantisation,
                                           .digest = served.info.digest,
                                           .block_tokens = kBlockTokens,
                                           .kv_blocks = kv_blocks});
  }
  const int threads = ThreadsFromSettings(*context.settings);
  const int lanes = engine_options.scheduler.lanes;
  const std::string as = mode == model::WeightMode::kInt8 ? "" : " as " + dtype;
  summary = fmt::format(
      "{} {}{} on {}, {} thread{}, {} lane{}, context {}, {} KV block{} of {}", config.architecture,
      served.info.quantisation, as, kernels::IsaName(table->isa), threads, threads == 1 ? "" : "s",
      lanes, lanes == 1 ? "" : "s", runner_options.context, kv_blocks, kv_blocks == 1 ? "" : "s",
      model::KvFormatName(model::KvFormatOf(kv_dtype, mode, *table)));
  if (draft.has_value()) summary += "; draft " + draft->summary();
  served.summary = summary;
  return OkStatus();
}

}  // namespace

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

std::string DTypeOf(const Settings& settings, const ModelRef& ref,
                    const model::DecoderCheckpoint& checkpoint) {
  if (!ref.dtype.empty()) return ref.dtype;
  if (checkpoint.packed != nullptr && settings.SourceOf("dtype") == Source::kDefault)
    return std::string(packed::ArithmeticName(checkpoint.packed->preamble().arithmetic));
  return settings.Text("dtype");
}

model::WeightMode WeightModeOf(const std::string& dtype) {
  if (dtype == "f32") return model::WeightMode::kF32;
  if (dtype == "f16") return model::WeightMode::kF16;
  if (dtype == "bf16") return model::WeightMode::kBf16;
  return model::WeightMode::kInt8;
}

Result<std::unique_ptr<ModelPlan>> PlanDecoder(const ModelRef& ref, const LoadContext& context,
                                               model::DecoderCheckpoint checkpoint) {
  auto plan = std::make_unique<DecoderPlan>();
  plan->generates = true;
  plan->context = context;
  plan->checkpoint = std::move(checkpoint);
  plan->dtype = DTypeOf(*context.settings, ref, plan->checkpoint);
  plan->mode = WeightModeOf(plan->dtype);
  RETURN_IF_ERROR(model::Weights::CheckPacked(plan->checkpoint, plan->mode));
  if (!context.fuse && plan->checkpoint.packed != nullptr)
    return InvalidArgument("invalid_value",
                           "a packed file's matrices are joined already: take what it was made of");
  ASSIGN_OR_RETURN(plan->table, KernelsFromSettings(*context.settings));
  RETURN_IF_ERROR(plan->ReadModel());
  RETURN_IF_ERROR(plan->SizeMemory());
  RETURN_IF_ERROR(plan->PlanDraft());
  RETURN_IF_ERROR(plan->Describe(ref));
  return std::unique_ptr<ModelPlan>(std::move(plan));
}

}  // namespace tutti::app
