// Plans and loads a decoder: from a GGUF file or folder to a running engine.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/config/decision_temperature.h"
#include "app/config/encoder_options.h"
#include "app/config/settings.h"
#include "app/loading/draft_plan.h"
#include "app/loading/encoder_parts.h"
#include "app/loading/file_facts.h"
#include "app/loading/model_loader.h"
#include "app/loading/model_plan.h"
#include "base/clock.h"
#include "chat_template/tool_prompt.h"
#include "engine/encoder_engine.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "gateway/engine_ports.h"
#include "gateway/served_model.h"
#include "kernels/kernels.h"
#include "kernels/pack.h"
#include "kv/prefix_store.h"
#include "model/adapters/lora.h"
#include "model/adapters/lora_file.h"
#include "model/decoder.h"
#include "model/decoder_checkpoint.h"
#include "model/families/family.h"
#include "model/vector_modules.h"
#include "model/weights.h"
#include "packed/file.h"
#include "runner/cpu_decoder_embedder.h"
#include "runner/cpu_model_runner.h"
#include "tensor/dtype.h"
#include "tensor/transcoded.h"
#include "tokenizer/tokenizer.h"

namespace tutti::app {
namespace {

// All objects of one served decoder that generates. Made by its plan; shared, and destroyed with
// the last user. Destroyed from the last member up: the engine first, then the objects that it
// uses.
struct LoadedDecoder {
  std::shared_ptr<Device> device;
  std::shared_ptr<const model::Weights> weights;
  std::unique_ptr<runner::CpuModelRunner> runner, draft;
  std::unique_ptr<gateway::TokenizerText> text;
  std::shared_ptr<telemetry::ServingMetrics> metrics;
  std::unique_ptr<gateway::EngineMetrics> observer;
  std::unique_ptr<kv::PrefixStore> prefixes;
  std::unique_ptr<engine::Engine> engine;
  std::shared_ptr<engine::EncoderEngine> encoder;  // set if the decoder also gives vectors
};

// Adds embeddings to a decoder, by default the normalized hidden state of the last token, or the
// scores that its files describe. Call it before the model is served. Errors: out_of_memory.
Status AddVectors(const LoadContext& context, const model::DecoderCheckpoint& checkpoint,
                  const kernels::KernelTable& table,
                  const std::shared_ptr<const model::Weights>& weights,
                  const std::shared_ptr<Device>& device, gateway::ServedModel& served) {
  const model::VectorModules& modules = *checkpoint.vectors;
  engine::EncoderOptions options = EncodeOptionsFrom(*context.settings);
  runner::DecoderEmbedderOptions run;
  run.kernels = &table;
  run.pool = device->pool();
  if (modules.stated) run.pooling = modules.pooling;
  run.max_items = options.batch_items;
  run.max_tokens = options.batch_tokens;
  run.max_item_tokens = served.info.generates
                            ? std::min(run.max_item_tokens, served.info.max_model_len)
                            : served.info.max_model_len;
  run.head = checkpoint.head;
  ASSIGN_OR_RETURN(std::unique_ptr<runner::CpuDecoderEmbedder> embedder,
                   runner::CpuDecoderEmbedder::Create(weights, run));
  served.info.status.memory_bytes += static_cast<int64_t>(embedder->memory_bytes());
  const engine::EncoderLimits limits = embedder->limits();
  options.batch_tokens = std::max(options.batch_tokens, limits.max_item_tokens);
  const std::shared_ptr<gateway::ServedEncoder> encoder =
      ConnectEncoder(context, table, options, served.info, std::move(embedder), device);
  // A decoder without modules.json gives its last row, normalised.
  encoder->normalize = !modules.stated || modules.normalize;
  encoder->prompts = modules.prompts;
  encoder->default_prompt = modules.default_prompt;
  if (modules.scores) {
    encoder->scale = ScaleOf(modules.scores->activation);
    encoder->pair_template = served.chat_template;
  }
  served.encoder = encoder;
  api::EncoderInfo& info = served.info.encoder.emplace();
  info.width = limits.width;
  info.token_width = limits.token_width;
  info.pairs = modules.scores.has_value();
  if (modules.scores) info.labels = {"relevance"};
  for (const auto& [name, text] : modules.prompts) info.prompts.push_back(name);
  info.cuts = context.settings->Text("encode.dimensions") == "any";
  info.pooling = model::PoolingName(run.pooling);
  info.batch_items = options.batch_items;
  info.batch_tokens = options.batch_tokens;
  info.batch_window = options.window;
  return OkStatus();
}

// ServedModel::load_adapter of a decoder of that configuration, arithmetic and digest.
gateway::AdapterLoader AdapterLoaderFor(const model::ModelConfig& config, model::WeightMode mode,
                                        std::string digest) {
  const auto base = std::make_shared<const model::ModelConfig>(config);
  return [base, mode, digest = std::move(digest)](const std::string& path, const std::string& root,
                                                  double scale) -> Result<gateway::LoadedAdapter> {
    const model::Family* const family = model::FamilyOfArchitecture(base->architecture);
    ASSIGN_OR_RETURN(model::LoraFile file, model::LoraFile::Open(path, *family, root));
    ASSIGN_OR_RETURN(
        const std::shared_ptr<const model::LoraAdapter> lora,
        model::LoraAdapter::Load(
            file, *base,
            {.scale = scale, .base_digest = digest, .narrow = mode != model::WeightMode::kF32}));
    gateway::LoadedAdapter loaded;
    loaded.summary = fmt::format("LoRA of rank {}, {} matrices, {} MiB", lora->max_rank(),
                                 lora->matrices(), (lora->bytes() + (1 << 20) - 1) >> 20);
    loaded.remarks = std::move(file.remarks);
    loaded.adapter = std::make_shared<const runner::CpuAdapter>(lora);
    return loaded;
  };
}

// Scheduling options of decoders from the settings, except those of speculative decoding
// (draft_plan.h).
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
  s.max_num_seqs = static_cast<int>(settings.Int("max-num-seqs"));
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

telemetry::ServingMetrics::EngineGauges ReadGauges(const LoadedDecoder& instance,
                                                   const Clock& clock) {
  telemetry::ServingMetrics::EngineGauges gauges = gateway::ReadGauges(*instance.engine, clock);
  if (instance.encoder != nullptr) {
    const double age_s = gateway::ReadGauges(*instance.encoder, clock).heartbeat_age_s;
    gauges.heartbeat_age_s = std::max(gauges.heartbeat_age_s, age_s);
  }
  return gauges;
}

void Add(std::string& notice, const std::string& text) {
  notice += (notice.empty() || text.empty() ? "" : "; ") + text;
}

// Notes tensor types without a kernel: the type they are converted to, and the cost.
void NoteTranscoded(const model::TensorStore& tensors, std::string& notice) {
  std::map<tensor::DType, int> found;
  for (const model::StoredTensor& tensor : tensors.tensors()) {
    const bool own = tensor.dtype == tensor::DType::kMXFP4;
    if (tensor::IsTranscoded(tensor.dtype) && !own && tensor.shape.rows() > 1)
      ++found[tensor.dtype];
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

// do_sample = false means greedy decoding, even if the file also sets a temperature.
api::SamplingDefaults DefaultsOf(const model::GenerationDefaults& generation) {
  api::SamplingDefaults defaults{.temperature = generation.temperature,
                                 .top_p = generation.top_p,
                                 .top_k = generation.top_k,
                                 .min_p = generation.min_p,
                                 .repetition_penalty = generation.repetition_penalty,
                                 .source = generation.source};
  if (generation.do_sample.has_value() && !*generation.do_sample) defaults.temperature = 0;
  return defaults;
}

// "temperature 0.6, top_k 20"
std::string TextOf(const api::SamplingDefaults& defaults) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, *value);
  };
  add("temperature", defaults.temperature);
  add("top_k", defaults.top_k);
  add("top_p", defaults.top_p);
  add("min_p", defaults.min_p);
  add("repetition_penalty", defaults.repetition_penalty);
  return text;
}

class DecoderPlan final : public ModelPlan {
 public:
  Result<std::shared_ptr<const gateway::ServedModel>> Load(
      std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) override;
  const api::ModelInfo& info() const override { return served_model->info; }

  // Steps of the plan, in order; each may refuse the file or the options.
  Status CheckTensors();  // all tensors exist, with the needed shapes
  Status ReadModel();     // tokenizer, template
  Status PlanDraft();     // the draft model, if any
  Status SizeTexts();     // for a model that gives vectors or scores alone
  Status SizeMemory();    // KV cache and context, the engine's and the runner's limits
  Status Describe(const ModelRef& ref);  // what clients and the operator see
  int64_t EstimateBytes() const;         // of weights, KV cache and scratch
  void MakeMetrics();                    // of the loaded model, if there is a registry

  LoadContext context;
  const kernels::KernelTable* table = nullptr;
  model::DecoderCheckpoint checkpoint;
  std::shared_ptr<gateway::ServedModel> served_model = std::make_shared<gateway::ServedModel>();
  std::string dtype = "int8";
  model::WeightMode mode = model::WeightMode::kInt8;  // of dtype
  model::KvDtype kv_dtype = model::KvDtype::kByWeights;
  model::ModelConfig config;
  size_t weight_bytes = 0;
  SequenceMemorySizes memory;
  size_t state_bytes = 0;  // of a state slot
  engine::EngineOptions engine_options;
  runner::CpuRunnerOptions runner_options;
  std::optional<DraftPlan> draft;
};

Result<std::shared_ptr<const gateway::ServedModel>> DecoderPlan::Load(
    std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) {
  auto instance = std::make_shared<LoadedDecoder>();
  model::LoadOptions load = LoadOptionsFor(mode, *table);
  load.threads = context.pack_threads > 0 ? context.pack_threads : device->threads();
  load.fuse = context.fuse;
  load.progress = std::move(progress);
  ASSIGN_OR_RETURN(instance->weights, model::Weights::Load(checkpoint, load));
  gateway::ServedModel& served = *served_model;
  ASSIGN_OR_RETURN(served.info.digest, checkpoint.Digest());
  std::string identity;
  if (context.settings->IsSet("cache.redis") || context.prefixes != nullptr) {
    // The identity includes instruction set and version, because they change the computed bits.
    ASSIGN_OR_RETURN(const std::string content, checkpoint.ContentDigest());
    identity = fmt::format("{} {} {} {} {}", content, kernels::IsaName(table->isa), context.version,
                           dtype, model::KvFormatName(model::KvFormatOf(kv_dtype, mode, *table)));
  }
  if (context.settings->IsSet("cache.redis")) served.identity = identity;
  RETURN_IF_ERROR(checkpoint.tensors->CheckUnchanged());
  if (!generates) {
    served.info.status.memory_bytes = static_cast<int64_t>(instance->weights->bytes());
    RETURN_IF_ERROR(AddVectors(context, checkpoint, *table, instance->weights, device, served));
    return std::shared_ptr<const gateway::ServedModel>(std::move(served_model));
  }
  runner_options.pool = device->pool();
  ASSIGN_OR_RETURN(instance->runner,
                   runner::CpuModelRunner::Create(instance->weights, runner_options));
  const kv::PrefixShape shape = instance->runner->memory_shape();
  if (context.prefixes != nullptr && engine_options.scheduler.prefix_cache &&
      shape != kv::PrefixShape()) {
    // Some families rotate keys by a table that depends on the context.
    instance->prefixes =
        context.prefixes->ForModel(fmt::format("{} {}", identity, runner_options.context), shape);
  }
  if (draft.has_value()) {
    ASSIGN_OR_RETURN(instance->draft, draft->Load(load.progress, device->pool()));
  }
  size_t bytes = instance->weights->bytes() + instance->runner->memory_bytes();
  if (draft.has_value()) bytes += draft->weight_bytes() + instance->draft->memory_bytes();
  served.info.status.memory_bytes = static_cast<int64_t>(bytes);

  MakeMetrics();
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
                                 .draft = instance->draft.get(),
                                 .prefixes = instance->prefixes.get()},
      &device->loop());
  instance->device = std::move(device);
  served.info.max_model_len = instance->engine->max_model_len();
  if (context.settings->On("encode.decoders")) {
    RETURN_IF_ERROR(
        AddVectors(context, checkpoint, *table, instance->weights, instance->device, served));
    instance->encoder = served.encoder->engine;
  }
  if (served.metrics != nullptr) {
    served.metrics->SetEngineGauges(
        [weak = std::weak_ptr<LoadedDecoder>(instance),
         clock = context.clock]() -> telemetry::ServingMetrics::EngineGauges {
          const std::shared_ptr<LoadedDecoder> alive = weak.lock();
          if (alive == nullptr) return {};
          return ReadGauges(*alive, *clock);
        });
  }
  if (runner_options.adapters)
    served.load_adapter = AdapterLoaderFor(instance->weights->config(), mode, served.info.digest);
  served.engine = std::shared_ptr<engine::Engine>(instance, instance->engine.get());
  return std::shared_ptr<const gateway::ServedModel>(std::move(served_model));
}

Status DecoderPlan::CheckTensors() {
  model::LoadOptions load = LoadOptionsFor(mode, *table);
  load.fuse = context.fuse;
  ASSIGN_OR_RETURN(const std::shared_ptr<const model::Weights> planned,
                   model::Weights::Plan(checkpoint, load));
  weight_bytes = planned->bytes();
  return OkStatus();
}

Status DecoderPlan::ReadModel() {
  config = checkpoint.config;
  if (!generates || context.settings->On("encode.decoders")) {
    RETURN_IF_ERROR(checkpoint.vectors.status());
    if (model::Decoder::StateBytes(config) > 0) {
      return InvalidArgument(
          "model_hparam",
          fmt::format("embeddings of a {} model, which has recurrent states, are not supported",
                      config.architecture));
    }
  }
  gateway::ServedModel& served = *served_model;
  ASSIGN_OR_RETURN(served.tokenizer, tokenizer::Tokenizer::Create(std::move(checkpoint.tokenizer)));
  for (std::string& remark : served.tokenizer->Remarks())
    checkpoint.remarks.push_back(std::move(remark));
  ASSIGN_OR_RETURN(served.chat_template, CompileTemplate(*served.tokenizer));
  if (checkpoint.head.scores() && !model::RendersPairs(served.tokenizer->chat_template()))
    return model::PairTemplateFault();
  chats = generates && served.chat_template.has_value();
  if (chats) {
    served.tools =
        chat_template::FindToolSupport(context.settings->Text("tool-format"), *served.chat_template,
                                       served.tokenizer->vocabulary());
  }
  if (served.tools && served.tools->takes_tools)
    served.info.tool_format = served.tools->syntax->name;
  served.info.fills_middle = generates && served.tokenizer->vocabulary().infill().has_value();
  served.info.tokenizer = gateway::DescribeTokenizer(*served.tokenizer);
  return OkStatus();
}

Status DecoderPlan::SizeTexts() {
  constexpr int kDefaultTokens = 2048;  // memory for keys and values of a batch grows with it
  const int stated = checkpoint.vectors->max_tokens;
  const int most = stated > 0 ? std::min(stated, config.context_length) : config.context_length;
  const auto asked = context.settings->OptionalInt("context");
  if (asked.value_or(0) > most) {
    return BadValue("context", fmt::format("--context {} exceeds the model's limit of {} tokens; "
                                           "lower it",
                                           *asked, most));
  }
  max_tokens = asked ? static_cast<int>(*asked) : std::min(most, kDefaultTokens);
  return OkStatus();
}

Status DecoderPlan::SizeMemory() {
  const Settings& settings = *context.settings;
  kv_dtype = KvDtypeFromSettings(settings);
  const SequenceMemoryNeeds needs = NeedsOf(settings, config, mode, *table);
  state_bytes = needs.state_bytes;
  ASSIGN_OR_RETURN(memory, SizeSequenceMemory(settings, needs));
  runner::CpuRunnerOptions& run = runner_options;
  ASSIGN_OR_RETURN(run.context, ChooseContext(settings, config, memory, notice));
  Add(notice, memory.notice);
  RETURN_IF_ERROR(CheckKvFits(settings));
  max_tokens = run.context;
  engine_options = EngineOptionsFrom(settings);
  const engine::SchedulerOptions& scheduler = engine_options.scheduler;
  run.kernels = table;
  run.kv_bytes = static_cast<size_t>(memory.kv_bytes);
  run.kv_blocks = memory.kv_blocks;
  run.window_blocks = memory.window_blocks;
  run.state_slots = memory.state_slots;
  run.kv_dtype = kv_dtype;
  run.max_step_tokens =
      std::max(scheduler.prefill_chunk_alone, scheduler.prefill_chunk) + scheduler.max_num_seqs;
  run.adapters = context.fuse && (settings.IsSet("lora") || settings.IsSet("lora-folder"));
  run.max_step_slices = std::max(scheduler.max_num_seqs, scheduler.static_batch) + 1;
  return OkStatus();
}

Status DecoderPlan::PlanDraft() {
  const Settings& settings = *context.settings;
  ASSIGN_OR_RETURN(const Speculate how, SpeculateFromSettings(settings));
  engine_options.scheduler.speculate = how != Speculate::kOff;
  if (how == Speculate::kDraft && runner_options.state_slots > 0) {
    return BadValue("draft", "models with recurrent states take no draft model; leave --draft out");
  }
  if (how == Speculate::kDraft) {
    ASSIGN_OR_RETURN(
        draft, DraftPlan::Open(settings, {.tokenizer = served_model->tokenizer.get(),
                                          .rows = config.vocab_size,
                                          .kernels = table,
                                          .context = runner_options.context,
                                          .max_num_seqs = engine_options.scheduler.max_num_seqs}));
  } else if (settings.IsSet("draft")) {
    Add(notice, "--draft is not loaded: --speculate " + settings.Text("speculate"));
  }
  return OkStatus();
}

void DecoderPlan::MakeMetrics() {
  gateway::ServedModel& served = *served_model;
  if (context.metrics == nullptr) return;
  served.metrics = std::make_shared<telemetry::ServingMetrics>(
      *context.metrics,
      telemetry::ServingMetrics::Options{.model = served.info.id,
                                         .vllm_aliases = context.settings->On("metrics.vllm"),
                                         .max_model_len = runner_options.context,
                                         .version = context.version,
                                         .isa = std::string(kernels::IsaName(table->isa)),
                                         .architecture = config.architecture,
                                         .quantisation = served.info.quantisation,
                                         .digest = served.info.digest,
                                         .block_tokens = kBlockTokens,
                                         .kv_blocks = memory.kv_blocks});
}

// As `inspect --memory` counts weights and cache. The scratch is known exactly once it is
// allocated; the rows of a step are about this wide.
int64_t DecoderPlan::EstimateBytes() const {
  const auto rows = static_cast<size_t>(runner_options.max_step_tokens);
  const auto width = static_cast<size_t>(std::max(config.width, config.max_q_rows()));
  const auto feed_forward = static_cast<size_t>(std::max(config.feed_forward, 0));
  size_t scratch = rows * (6 * width + 3 * feed_forward);
  if (generates) {  // the logits of a step
    scratch += static_cast<size_t>(runner_options.max_step_slices) *
               static_cast<size_t>(config.vocab_size);
  }
  size_t bytes = weight_bytes + scratch * sizeof(float);
  bytes += static_cast<size_t>(memory.kv_bytes);
  bytes += static_cast<size_t>(memory.state_slots) * state_bytes;
  if (draft.has_value()) bytes += draft->weight_bytes() + draft->kv_bytes();
  return static_cast<int64_t>(bytes);
}

Status DecoderPlan::Describe(const ModelRef& ref) {
  gateway::ServedModel& served = *served_model;
  served.info.id = ref.served_name;
  served.info.created_unix_s = UnixSeconds();
  served.info.generates = generates;
  served.info.decision_temperature =
      DecisionTemperatureFromSettings(*context.settings, ref.served_name);
  served.info.status.memory_bytes = EstimateBytes();
  served.info.max_model_len = max_tokens;
  served.info.vocab_size = config.vocab_size;
  served.info.architecture = config.architecture;
  if (!generates) {  // what is known before the embedder is made (AddVectors)
    const model::VectorModules& modules = *checkpoint.vectors;
    api::EncoderInfo& encoder = served.info.encoder.emplace();
    encoder.pairs = modules.scores.has_value();
    if (modules.scores) encoder.labels = {"relevance"};
    encoder.width = encoder.token_width = modules.scores ? 0 : config.width;
  }
  served.info.quantisation = checkpoint.TypeName();
  served.info.files = FactsOf(ref.path, *checkpoint.tensors, checkpoint.TypeName());
  if (mode == model::WeightMode::kInt8) NoteTranscoded(*checkpoint.tensors, notice);
  std::vector<std::string> lines = checkpoint.notes;
  lines.insert(lines.end(), checkpoint.remarks.begin(), checkpoint.remarks.end());
  Add(notice, RemarksNotice(ref, lines));
  const model::GenerationDefaults& generation = checkpoint.generation;
  if (generates && context.settings->Text("generation-config") == "auto" && !generation.empty())
    served.info.sampling = DefaultsOf(generation);
  const int threads = ThreadsFromSettings(*context.settings);
  const int max_num_seqs = engine_options.scheduler.max_num_seqs;
  const std::string as = mode == model::WeightMode::kInt8 ? "" : " as " + dtype;
  if (!generates) {
    summary = fmt::format("{} {}{} on {}, {} thread{}, {}, {} tokens a text", config.architecture,
                          served.info.quantisation, as, kernels::IsaName(table->isa), threads,
                          threads == 1 ? "" : "s",
                          model::VectorText(*checkpoint.vectors, config.width), max_tokens);
    served.summary = summary;
    return OkStatus();
  }
  summary = fmt::format(
      "{} {}{} on {}, {} thread{}, {} sequence{}, context {}, {} KV block{}{} of {}",
      config.architecture, served.info.quantisation, as, kernels::IsaName(table->isa), threads,
      threads == 1 ? "" : "s", max_num_seqs, max_num_seqs == 1 ? "" : "s", runner_options.context,
      memory.kv_blocks, memory.kv_blocks == 1 ? "" : "s",
      memory.window_blocks == 0 ? "" : fmt::format(" and {} of windows", memory.window_blocks),
      model::KvFormatName(model::KvFormatOf(kv_dtype, mode, *table)));
  if (memory.state_slots > 0) summary += fmt::format(", {} states", memory.state_slots);
  if (!served.info.sampling.empty())
    summary += "; sampling of " + generation.source + ": " + TextOf(served.info.sampling);
  if (draft.has_value()) summary += "; draft " + draft->summary();
  served.summary = summary;
  return OkStatus();
}

}  // namespace

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

model::LoadOptions LoadOptionsFor(model::WeightMode mode, const kernels::KernelTable& kernels) {
  return {
      .mode = mode, .bf16_pairs = kernels.gemm.bf16_pairs, .bf16_tiles = kernels.gemm.bf16_tiles};
}

Result<std::unique_ptr<ModelPlan>> PlanDecoder(const ModelRef& ref, const LoadContext& context,
                                               model::DecoderCheckpoint checkpoint) {
  auto plan = std::make_unique<DecoderPlan>();
  plan->generates = !checkpoint.encodes();
  plan->context = context;
  plan->checkpoint = std::move(checkpoint);
  plan->dtype = DTypeOf(*context.settings, ref, plan->checkpoint);
  plan->mode = WeightModeOf(plan->dtype);
  if (!context.fuse && plan->checkpoint.packed != nullptr)
    return InvalidArgument(
        "invalid_value",
        "a packed file cannot run one operation at a time; use the file or folder "
        "that it was made of");
  ASSIGN_OR_RETURN(plan->table, KernelsFromSettings(*context.settings));
  RETURN_IF_ERROR(plan->CheckTensors());
  RETURN_IF_ERROR(plan->ReadModel());
  if (plan->generates) {
    RETURN_IF_ERROR(plan->SizeMemory());
    RETURN_IF_ERROR(plan->PlanDraft());
  } else {
    RETURN_IF_ERROR(plan->SizeTexts());
  }
  RETURN_IF_ERROR(plan->Describe(ref));
  return std::unique_ptr<ModelPlan>(std::move(plan));
}

}  // namespace tutti::app
