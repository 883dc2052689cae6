#include "app/loading/draft_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/loading/model_loader.h"
#include "app/loading/model_plan.h"
#include "base/quote.h"
#include "engine/options.h"
#include "model/decoder.h"

namespace tutti::app {
namespace {

// Rows of one step: of sequences on their way to a proposal, with the token that was just drawn, or
// a piece of a prompt. In a smaller one a sequence would be left out, in a larger one nothing is
// gained.
constexpr int kDraftStepTokens = std::max(
    engine::kMaxDraftSequences * (engine::kDraftLittleToRead + 1), engine::kDraftReadAtMost);
// The draft model's KV memory is at most the model's own divided by this.
constexpr size_t kPartOfKv = 4;

Status NotTheSame(const std::string& how) {
  return InvalidArgument("invalid_value",
                         "it must have the same tokens as the model it proposes for; " + how);
}

}  // namespace

Result<Speculate> SpeculateFromSettings(const Settings& settings) {
  const std::string& how = settings.Text("speculate");
  const bool model = settings.IsSet("draft");
  if (how == "draft" && !model) {
    return InvalidArgument("invalid_value", "--speculate draft needs a draft model: --draft MODEL")
        .WithParam("speculate");
  }
  if (how == "draft") return Speculate::kDraft;
  if (model && settings.SourceOf("speculate") == Source::kDefault) return Speculate::kDraft;
  return how == "ngram" ? Speculate::kNgram : Speculate::kOff;
}

Status CheckSameTokens(const tokenizer::Vocabulary& model, const tokenizer::Vocabulary& draft) {
  if (model.size() != draft.size()) {
    return NotTheSame(
        fmt::format("the model knows {} tokens, the draft {}", model.size(), draft.size()));
  }
  for (TokenId id = 0; id < model.size(); ++id) {
    if (model.Text(id) == draft.Text(id)) continue;
    return NotTheSame(fmt::format("token {} is {} of the model and {} of the draft", id,
                                  Quote(model.Text(id)), Quote(draft.Text(id))));
  }
  return OkStatus();
}

Result<DraftPlan> DraftPlan::Open(const Settings& settings, const DraftHost& host) {
  DraftPlan plan;
  Result<ModelRef> ref = ResolveModel(settings.Text("draft"));
  if (!ref.ok()) return std::move(ref).status().WithContext("--draft").WithParam("draft");
  plan.ref_ = *std::move(ref);
  const auto named = [&](Status status) { return plan.Named(std::move(status)); };
  Result<model::DecoderCheckpoint> checkpoint =
      model::DecoderCheckpoint::FromFiles(model::ModelFiles::At(plan.ref_.path));
  if (!checkpoint.ok()) return named(std::move(checkpoint).status());
  plan.checkpoint_ = *std::move(checkpoint);
  const model::ModelConfig& config = plan.checkpoint_.config;
  auto tokens = tokenizer::Tokenizer::Create(std::move(plan.checkpoint_.tokenizer));
  if (!tokens.ok()) return named(std::move(tokens).status());
  if (Status same = CheckSameTokens(host.tokenizer->vocabulary(), (*tokens)->vocabulary());
      !same.ok())
    return named(std::move(same));
  if (config.vocab_size < host.rows) {
    return named(NotTheSame(fmt::format("the model's embedding has {} rows, the draft's {}",
                                        host.rows, config.vocab_size)));
  }
  if (plan.checkpoint_.encodes()) {
    return named(BadValue("draft", "the model generates no text; choose another draft model"));
  }
  if (model::Decoder::StateBytes(config) > 0) {
    return named(BadValue(
        "draft", "draft models with recurrent states are not supported; choose another one"));
  }
  plan.mode_ = WeightModeOf(DTypeOf(settings, plan.ref_, plan.checkpoint_));
  const auto planned =
      model::Weights::Plan(plan.checkpoint_, LoadOptionsFor(plan.mode_, *host.kernels));
  if (!planned.ok()) return named(planned.status());
  plan.weight_bytes_ = (*planned)->bytes();

  runner::CpuRunnerOptions& run = plan.options_;
  run.kernels = host.kernels;
  run.kv_dtype = KvDtypeFromSettings(settings);
  run.context = std::min(host.context, config.context_length);
  run.max_step_tokens = kDraftStepTokens;
  run.max_step_slices = engine::kMaxDraftSequences;
  const size_t block =
      model::Decoder::KvBlockBytes(config, plan.mode_, *host.kernels, run.kv_dtype);
  // The maximum that the sequences need for which the draft model proposes at once.
  const auto wanted = static_cast<size_t>(BlocksFor(run.context)) *
                      static_cast<size_t>(std::min(host.max_num_seqs, engine::kMaxDraftSequences));
  const auto most = static_cast<size_t>(settings.Int("kv-cache-bytes")) / kPartOfKv / block;
  const size_t blocks = std::max<size_t>(std::min(wanted, most), 1);
  run.kv_bytes = blocks * block;
  plan.summary_ = fmt::format(
      "{} {} of {} MiB, {} KV block{} of {}", config.architecture, plan.checkpoint_.TypeName(),
      (plan.weight_bytes_ + (1 << 20) - 1) >> 20, blocks, blocks == 1 ? "" : "s",
      model::KvFormatName(model::KvFormatOf(run.kv_dtype, plan.mode_, *host.kernels)));
  return plan;
}

Status DraftPlan::Named(Status status) const {
  return std::move(status).WithContext("--draft " + ref_.path).WithParam("draft");
}

Result<std::unique_ptr<runner::CpuModelRunner>> DraftPlan::Load(
    std::function<bool(size_t, size_t)> progress, std::shared_ptr<runner::ComputePool> pool) {
  model::LoadOptions load = LoadOptionsFor(mode_, *options_.kernels);
  load.threads = pool->workers();
  load.progress = std::move(progress);
  auto weights = model::Weights::Load(checkpoint_, load);
  if (!weights.ok()) return Named(std::move(weights).status());
  if (Status same = checkpoint_.tensors->CheckUnchanged(); !same.ok())
    return Named(std::move(same));
  options_.pool = std::move(pool);
  return runner::CpuModelRunner::Create(*std::move(weights), options_);
}

}  // namespace tutti::app
