// An encoder's folder or GGUF file becomes a running one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "app/config/decision_temperature.h"
#include "app/config/encoder_options.h"
#include "app/loading/encoder_parts.h"
#include "app/loading/file_facts.h"
#include "app/loading/model_plan.h"
#include "base/clock.h"
#include "model/encoder_checkpoint.h"
#include "model/encoder_choice.h"
#include "runner/cpu_encoder_runner.h"

namespace tutti::app {
namespace {

class EncoderPlan final : public ModelPlan {
 public:
  EncoderPlan(const ModelRef& ref, const LoadContext& context, model::EncoderCheckpoint checkpoint)
      : ref_(ref), context_(context), checkpoint_(std::move(checkpoint)) {}

  Status Open() {
    const Settings& settings = *context_.settings;
    const std::string& asked = ref_.dtype.empty() ? settings.Text("dtype") : ref_.dtype;
    ASSIGN_OR_RETURN(dtype_, EncoderDTypeOf(ref_, settings));
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

  const api::ModelInfo& info() const override { return served_->info; }

  Result<std::shared_ptr<const gateway::ServedModel>> Load(
      std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) override {
    const int pack_threads = context_.pack_threads > 0 ? context_.pack_threads : device->threads();
    ASSIGN_OR_RETURN(model::EncoderChoice choice,
                     model::ChooseEncoderWeights(checkpoint_.config, *checkpoint_.tensors,
                                                 *checkpoint_.tokenizer,
                                                 {.dtype = dtype_,
                                                  .kernels = table_,
                                                  .threads = pack_threads,
                                                  .progress = std::move(progress)}));
    ASSIGN_OR_RETURN(served_->info.digest, checkpoint_.Digest());
    RETURN_IF_ERROR(checkpoint_.tensors->CheckUnchanged());
    runner::CpuEncoderOptions run;
    run.kernels = table_;
    run.pool = device->pool();
    run.max_items = options_.batch_items;
    run.max_tokens = options_.batch_tokens;
    ASSIGN_OR_RETURN(std::unique_ptr<runner::CpuEncoderRunner> runner,
                     runner::CpuEncoderRunner::Create(choice.weights, run));
    served_->info.status.memory_bytes =
        static_cast<int64_t>(choice.weights->bytes() + runner->scratch_bytes());
    served_->info.quantisation = model::EncoderDTypeName(choice.dtype());
    served_->summary = Summary(choice.ToString());
    Serve(std::move(runner), std::move(device));
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
    info.generates = false;
    info.files = FactsOf(ref_.path, *checkpoint_.tensors);
    info.decision_temperature =
        DecisionTemperatureFromSettings(*context_.settings, ref_.served_name);
    info.status.memory_bytes = MostBytes();
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

  // The type is chosen while the model is loaded, with float32 as the reference: that, and half of
  // it for the type compared, and the scratch of a batch.
  int64_t MostBytes() const {
    int64_t floats = 0;
    for (const model::StoredTensor& tensor : checkpoint_.tensors->tensors())
      floats += tensor.shape.elements();
    const model::EncoderConfig& config = checkpoint_.config;
    const int64_t rows = options_.batch_tokens;
    const int64_t scratch = rows * (8 * config.width + 2 * config.feed_forward);
    const auto bytes = static_cast<int64_t>(sizeof(float));
    return floats * bytes * 3 / 2 + 2 * scratch * bytes;
  }

  void Serve(std::unique_ptr<engine::EncoderRunner> runner, std::shared_ptr<Device> device) {
    const model::EncoderConfig& config = checkpoint_.config;
    const std::shared_ptr<gateway::ServedEncoder> encoder = ConnectEncoder(
        context_, *table_, options_, served_->info, std::move(runner), std::move(device));
    encoder->prompts = config.prompts;
    encoder->default_prompt = config.default_prompt;
    encoder->normalize = config.normalize;
    encoder->normalize_tokens = config.per_token;
    encoder->scale = ScaleOf(config.activation);
    served_->encoder = encoder;
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
