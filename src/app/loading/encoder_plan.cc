// An encoder's folder or GGUF file becomes a running one.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "app/config/encoder_options.h"
#include "app/loading/model_plan.h"
#include "base/clock.h"
#include "engine/encoder_engine.h"
#include "gateway/engine_ports.h"
#include "model/encoder_checkpoint.h"
#include "model/encoder_choice.h"
#include "runner/cpu_encoder_runner.h"

namespace tutti::app {
namespace {

// Everything one served encoder is made of, destroyed from the bottom up.
struct LoadedEncoder {
  std::shared_ptr<Device> device;
  std::unique_ptr<runner::CpuEncoderRunner> runner;
  std::shared_ptr<telemetry::EncoderMetrics> metrics;
  std::unique_ptr<gateway::EncoderEngineMetrics> observer;
  std::unique_ptr<engine::EncoderEngine> engine;
};

class EncoderPlan final : public ModelPlan {
 public:
  EncoderPlan(const ModelRef& ref, const LoadContext& context, model::EncoderCheckpoint checkpoint)
      : ref_(ref), context_(context), checkpoint_(std::move(checkpoint)) {}

  Status Open() {
    const Settings& settings = *context_.settings;
    const std::string& asked = ref_.dtype.empty() ? settings.Text("dtype") : ref_.dtype;
    if (!ref_.dtype.empty() || settings.SourceOf("dtype") != Source::kDefault) {
      ASSIGN_OR_RETURN(dtype_, model::ParseEncoderDType(asked));
    }
    RETURN_IF_ERROR(model::EncoderWeights::Check(checkpoint_.config, *checkpoint_.tensors));
    ASSIGN_OR_RETURN(table_, KernelsFromSettings(settings));
    options_ = EncodeOptionsFrom(settings);
    const model::EncoderConfig& config = checkpoint_.config;
    options_.batch_tokens = std::max(options_.batch_tokens, config.max_tokens);
    Describe();
    summary = Summary(asked);
    max_tokens = config.max_tokens;
    notice = RemarksNotice(ref_, checkpoint_.remarks);
    return OkStatus();
  }

  Result<std::shared_ptr<const gateway::ServedModel>> Load(
      std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) override {
    auto instance = std::make_shared<LoadedEncoder>();
    ASSIGN_OR_RETURN(model::EncoderChoice choice,
                     model::ChooseEncoderWeights(checkpoint_.config, *checkpoint_.tensors,
                                                 *checkpoint_.tokenizer,
                                                 {.dtype = dtype_,
                                                  .kernels = table_,
                                                  .threads = device->threads(),
                                                  .progress = std::move(progress)}));
    RETURN_IF_ERROR(checkpoint_.tensors->CheckUnchanged());
    runner::CpuEncoderOptions run;
    run.kernels = table_;
    run.pool = device->pool();
    run.max_items = options_.batch_items;
    run.max_tokens = options_.batch_tokens;
    ASSIGN_OR_RETURN(instance->runner, runner::CpuEncoderRunner::Create(choice.weights, run));
    served_->info.quantisation = model::EncoderDTypeName(choice.dtype());
    served_->summary = Summary(choice.ToString());
    Connect(*instance, std::move(device));
    Serve(instance);
    return std::shared_ptr<const gateway::ServedModel>(std::move(served_));
  }

 private:
  static std::string Vectors(const model::EncoderConfig& config) {
    if (config.per_token) return fmt::format("{} floats for each token", config.token_width());
    return fmt::format("{} floats by {} pooling", config.vector_width(), config.pooling_name());
  }

  std::string Summary(const std::string& dtype) const {
    const model::EncoderConfig& config = checkpoint_.config;
    const int threads = ThreadsFromSettings(*context_.settings);
    const std::string gives =
        config.labels.empty()
            ? Vectors(config)
            : fmt::format("{} label{}", config.labels.size(), config.labels.size() == 1 ? "" : "s");
    return fmt::format("{} {} on {}, {} thread{}, {}, {} tokens a text", config.architecture, dtype,
                       kernels::IsaName(table_->isa), threads, threads == 1 ? "" : "s", gives,
                       config.max_tokens);
  }

  void Describe() {
    const model::EncoderConfig& config = checkpoint_.config;
    api::ModelInfo& info = served_->info;
    info.id = ref_.served_name;
    info.created_unix_s = UnixSeconds();
    info.max_model_len = config.max_tokens;
    info.vocab_size = config.vocab_size;
    info.architecture = config.architecture;
    info.digest = checkpoint_.digest;
    info.generates = false;
    api::EncoderInfo& encoder = info.encoder.emplace();
    encoder.width = config.labels.empty() ? config.vector_width() : 0;
    encoder.token_width = config.labels.empty() ? config.token_width() : 0;
    encoder.sparse = config.lexical.has_value();
    encoder.cuts = context_.settings->Text("encode.dimensions") == "any";
    encoder.pooling = config.pooling_name();
    encoder.pairs = checkpoint_.tokenizer->reads_pairs();
    encoder.labels = config.labels;
    for (const auto& [name, text] : config.prompts) encoder.prompts.push_back(name);
    encoder.batch_items = options_.batch_items;
    encoder.batch_tokens = options_.batch_tokens;
    encoder.batch_window = options_.window;
    served_->tokenizer = checkpoint_.tokenizer;
    served_->info.tokenizer = gateway::DescribeTokenizer(*served_->tokenizer);
  }

  void Connect(LoadedEncoder& instance, std::shared_ptr<Device> device) {
    const api::ModelInfo& info = served_->info;
    if (context_.metrics != nullptr) {
      instance.metrics = std::make_shared<telemetry::EncoderMetrics>(
          *context_.metrics,
          telemetry::EncoderMetrics::Options{.model = info.id,
                                             .max_tokens = info.max_model_len,
                                             .version = context_.version,
                                             .isa = std::string(kernels::IsaName(table_->isa)),
                                             .architecture = info.architecture,
                                             .quantisation = info.quantisation,
                                             .digest = info.digest});
      instance.observer = std::make_unique<gateway::EncoderEngineMetrics>(*instance.metrics);
    }
    instance.engine = std::make_unique<engine::EncoderEngine>(
        options_,
        engine::EncoderDependencies{.runner = instance.runner.get(),
                                    .clock = context_.clock,
                                    .observer = instance.observer.get(),
                                    .memory_level = &device->memory_level()},
        &device->loop());
    instance.device = std::move(device);
  }

  void Serve(const std::shared_ptr<LoadedEncoder>& instance) {
    const model::EncoderConfig& config = checkpoint_.config;
    auto encoder = std::make_shared<gateway::ServedEncoder>();
    encoder->engine = std::shared_ptr<engine::EncoderEngine>(instance, instance->engine.get());
    encoder->prompts = config.prompts;
    encoder->default_prompt = config.default_prompt;
    encoder->normalize = config.normalize;
    encoder->normalize_tokens = config.per_token;
    encoder->max_tokens = config.max_tokens;
    encoder->scale = ScaleOf(config.activation);
    encoder->metrics = instance->metrics;
    if (instance->metrics != nullptr) {
      instance->metrics->SetGauges(
          [weak = std::weak_ptr<LoadedEncoder>(instance), clock = context_.clock] {
            const std::shared_ptr<LoadedEncoder> alive = weak.lock();
            return alive == nullptr ? telemetry::EncoderMetrics::Gauges{}
                                    : gateway::ReadGauges(*alive->engine, *clock);
          });
    }
    served_->encoder = std::move(encoder);
  }

  const ModelRef ref_;
  const LoadContext context_;
  const kernels::KernelTable* table_ = nullptr;
  std::optional<model::EncoderDType> dtype_;  // asked for
  model::EncoderCheckpoint checkpoint_;
  engine::EncoderOptions options_;
  std::shared_ptr<gateway::ServedModel> served_ = std::make_shared<gateway::ServedModel>();
};

}  // namespace

gateway::ScoreScale ScaleOf(model::ScoreActivation activation) {
  using enum model::ScoreActivation;
  return activation == kSigmoid   ? gateway::ScoreScale::kSigmoid
         : activation == kSoftmax ? gateway::ScoreScale::kSoftmax
                                  : gateway::ScoreScale::kRaw;
}

Result<std::unique_ptr<ModelPlan>> PlanEncoder(const ModelRef& ref, const LoadContext& context,
                                               model::EncoderCheckpoint checkpoint) {
  auto plan = std::make_unique<EncoderPlan>(ref, context, std::move(checkpoint));
  RETURN_IF_ERROR(plan->Open());
  return std::unique_ptr<ModelPlan>(std::move(plan));
}

}  // namespace tutti::app
