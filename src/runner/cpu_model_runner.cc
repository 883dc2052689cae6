#include "runner/cpu_model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "sampling/sampler.h"

namespace tutti::runner {
namespace {

// Rows whose logits are held at once: a step with more runs its head in rounds. 64 rows make the
// head's weights compute-bound, and 64 x 262,144 logits are 64 MiB.
constexpr int kMaxHeadRows = 64;

Status CheckOptions(const model::Weights& weights, const CpuRunnerOptions& options,
                    size_t block_bytes) {
  const auto refuse = [](const std::string& what) {
    return InvalidArgument("invalid_value", what);
  };
  if (options.context < 1 || options.context > weights.config().max_context()) {
    return refuse(fmt::format("a context of {} tokens exceeds the model's limit of {}",
                              options.context, weights.config().max_context()));
  }
  if (options.max_step_tokens < 1 || options.max_step_slices < 1) {
    return refuse("tokens and sequences of a step must be at least 1");
  }
  if (model::Decoder::StateBytes(weights.config()) != 0 && options.state_slots < 1) {
    return refuse("a " + weights.config().architecture +
                  " model has recurrent states, and no slot for them was given");
  }
  const bool windows = options.window_blocks > 0;
  if (windows && (weights.config().window == 0 || options.kv_blocks < 1)) {
    return refuse(weights.config().window == 0
                      ? "a " + weights.config().architecture + " model has no layers with a window"
                      : "blocks for layers with a window were given, and none for the others");
  }
  if (!windows && options.kv_bytes < block_bytes) {
    return refuse("KV memory of " + std::to_string(options.kv_bytes) +
                  " bytes does not hold one block of " + std::to_string(block_bytes) +
                  " bytes; raise --kv-cache-bytes");
  }
  // Positions are ints, up to one past the last slot of the pool.
  const int64_t blocks =
      windows ? options.kv_blocks : static_cast<int64_t>(options.kv_bytes / block_bytes);
  constexpr int64_t kMaxBlocks = INT32_MAX / kBlockTokens - 1;
  if (blocks > kMaxBlocks) {
    return refuse(
        fmt::format("the KV memory holds {} blocks of {} tokens, more than {}; lower "
                    "--kv-cache-bytes",
                    blocks, kBlockTokens, kMaxBlocks));
  }
  return OkStatus();
}

}  // namespace

void StepLayout::Reserve(int max_tokens, int max_slices) {
  const auto tokens = static_cast<size_t>(max_tokens);
  const auto slices = static_cast<size_t>(max_slices);
  tokens_.reserve(tokens);
  sequences_.reserve(slices);
  window_sequences_.reserve(slices);
  lora_rows_.reserve(tokens);
  lora_groups_.reserve(slices);
  head_.reserve(tokens);
  head_rows_.reserve(tokens);
  bad_token_.reserve(slices);
}

void StepLayout::Build(const engine::StepPlan& plan, int vocab_size, bool all_logits) {
  tokens_.clear();
  sequences_.clear();
  window_sequences_.clear();
  head_.clear();
  head_rows_.clear();
  bad_token_.assign(plan.slices.size(), 0);
  for (size_t i = 0; i < plan.slices.size(); ++i) {
    const engine::SequenceSlice& slice = plan.slices[i];
    const auto rows = static_cast<int32_t>(slice.tokens.size());
    const auto first_row = static_cast<int32_t>(tokens_.size());
    CHECK_GE(rows, 1);
    CHECK_GE(static_cast<int64_t>(slice.blocks.size()) * kBlockTokens, int64_t{slice.start} + rows)
        << "sequence " << slice.sequence;
    sequences_.push_back({slice.blocks.data(), slice.start, rows, first_row});
    if (!slice.window_blocks.empty()) {
      CHECK_EQ(slice.window_blocks.size(), slice.blocks.size());
      window_sequences_.push_back({slice.window_blocks.data(), slice.start, rows, first_row});
    }
    for (const TokenId token : slice.tokens) {
      const bool known = token >= 0 && token < vocab_size;
      tokens_.push_back(known ? token : 0);
      if (!known) bad_token_[i] = 1;
    }
    AddHeadRows(slice, static_cast<int32_t>(i), first_row, all_logits);
  }
  GroupByAdapter(plan);
}

void StepLayout::GroupByAdapter(const engine::StepPlan& plan) {
  lora_rows_.clear();
  lora_groups_.clear();
  const auto lora_of = [&](size_t slice) -> const model::LoraAdapter* {
    const auto* adapter = static_cast<const CpuAdapter*>(plan.slices[slice].adapter);
    return adapter == nullptr ? nullptr : &adapter->lora();
  };
  for (size_t i = 0; i < plan.slices.size(); ++i) {
    const model::LoraAdapter* const lora = lora_of(i);
    const auto grouped = [&](const auto& group) { return group.adapter == lora; };
    if (lora == nullptr || std::any_of(lora_groups_.begin(), lora_groups_.end(), grouped)) continue;
    const auto begin = static_cast<int32_t>(lora_rows_.size());
    for (size_t j = i; j < plan.slices.size(); ++j) {
      if (lora_of(j) != lora) continue;
      for (int32_t row = 0; row < sequences_[j].rows; ++row)
        lora_rows_.push_back(sequences_[j].first_row + row);
    }
    lora_groups_.push_back({lora, begin, static_cast<int32_t>(lora_rows_.size()) - begin});
  }
}

void StepLayout::AddHeadRows(const engine::SequenceSlice& slice, int32_t index, int32_t first_row,
                             bool all_logits) {
  const auto rows = static_cast<int32_t>(slice.tokens.size());
  const bool score = slice.prompt_logprobs >= 0;
  const int32_t first_draw = rows - 1 - slice.drafts;
  CHECK(slice.drafts >= 0 && slice.drafts <= engine::kMaxDrafts && first_draw >= 0);
  for (int32_t offset = score ? std::min(slice.unscored, first_draw) : first_draw; offset < rows;
       ++offset) {
    const bool last = offset == rows - 1;
    HeadRow row;
    row.row = first_row + offset;
    row.slice = index;
    row.offset = offset;
    if (score && offset >= slice.unscored)
      row.successor = last ? slice.next_token : slice.tokens[static_cast<size_t>(offset) + 1];
    row.sample = offset >= first_draw && slice.sample;
    row.draw = offset - first_draw;
    if (row.successor == kNoToken && !row.sample) continue;
    CHECK(!row.sample || slice.sampler != nullptr);
    row.needs_logits = all_logits || row.successor != kNoToken ||
                       (row.sample && !engine::HistoryOf(slice, row.draw).plain_argmax());
    head_.push_back(row);
    head_rows_.push_back(row.row);
  }
}

struct CpuModelRunner::SamplerSlot {
  sampling::SamplerScratch scratch;
  std::vector<float> copy;  // of a row that is sampled and reported: sampling overwrites it
};

Result<std::unique_ptr<CpuModelRunner>> CpuModelRunner::Create(
    std::shared_ptr<const model::Weights> weights, const CpuRunnerOptions& options) {
  CHECK(options.kernels != nullptr);
  const size_t block_bytes = KvBlockBytes(*weights, *options.kernels, options.kv_dtype);
  RETURN_IF_ERROR(CheckOptions(*weights, options, block_bytes));

  const size_t state_bytes = model::Decoder::StateBytes(weights->config());
  engine::RunnerLimits limits;
  limits.state_slots = state_bytes == 0 ? 0 : options.state_slots;
  limits.kv_blocks = static_cast<int>(options.kv_bytes / block_bytes);
  if (options.window_blocks > 0) {
    limits.kv_blocks = static_cast<int>(options.kv_blocks);
    limits.window_blocks = options.window_blocks;
    limits.window = weights->config().window;
  }
  limits.max_step_tokens = options.max_step_tokens;
  limits.max_step_slices = options.max_step_slices;
  limits.context = options.context;
  limits.vocab_size = weights->config().vocab_size;
  limits.weight_bytes = weights->bytes();

  model::Decoder::Options decoder_options;
  decoder_options.workers = options.pool->workers();
  decoder_options.max_rows = options.max_step_tokens;
  decoder_options.max_head_rows = std::min(kMaxHeadRows, options.max_step_tokens);
  decoder_options.context = options.context;
  decoder_options.kv_dtype = options.kv_dtype;
  decoder_options.window_memory = options.window_blocks > 0;
  decoder_options.lora = options.adapters;
  ASSIGN_OR_RETURN(auto decoder,
                   model::Decoder::Create(std::move(weights), *options.kernels, decoder_options));
  ASSIGN_OR_RETURN(auto kv, kernels::AlignedBuffer::Allocate(static_cast<size_t>(limits.kv_blocks) *
                                                             decoder->kv_block_bytes()));
  ASSIGN_OR_RETURN(auto window_kv,
                   kernels::AlignedBuffer::Allocate(static_cast<size_t>(limits.window_blocks) *
                                                    decoder->window_block_bytes()));
  ASSIGN_OR_RETURN(auto states, kernels::AlignedBuffer::Allocate(
                                    static_cast<size_t>(limits.state_slots) * state_bytes));
  const size_t logits_bytes = static_cast<size_t>(decoder_options.max_head_rows) *
                              static_cast<size_t>(decoder->logits_stride()) * sizeof(float);
  ASSIGN_OR_RETURN(auto logits, kernels::AlignedBuffer::Allocate(logits_bytes));
  return std::unique_ptr<CpuModelRunner>(
      new CpuModelRunner(options, std::move(decoder), std::move(kv), std::move(window_kv),
                         std::move(states), std::move(logits), limits));
}

CpuModelRunner::CpuModelRunner(const CpuRunnerOptions& options,
                               std::unique_ptr<model::Decoder> decoder, kernels::AlignedBuffer kv,
                               kernels::AlignedBuffer window_kv, kernels::AlignedBuffer states,
                               kernels::AlignedBuffer logits, engine::RunnerLimits limits)
    : options_(options),
      limits_(limits),
      pool_(*options_.pool),
      decoder_(std::move(decoder)),
      kv_(std::move(kv)),
      window_kv_(std::move(window_kv)),
      states_(std::move(states)),
      logits_(std::move(logits)),
      pass_(*decoder_, pool_.workers(), options_.share_prefixes) {
  layout_.Reserve(limits.max_step_tokens, limits.max_step_slices);
  state_slices_.reserve(static_cast<size_t>(limits.max_step_slices));
  for (int i = 0; i < pool_.workers(); ++i) {
    samplers_.push_back(std::make_unique<SamplerSlot>());
    samplers_.back()->copy.resize(static_cast<size_t>(limits.vocab_size));
  }
}

CpuModelRunner::~CpuModelRunner() = default;

void CpuModelRunner::Launch(const engine::StepPlan& plan) {
  CHECK(!result_.has_value()) << "step " << plan.step
                              << " launched before the last one was collected";
  CHECK_LE(plan.slices.size(), static_cast<size_t>(limits_.max_step_slices));
  const auto start = std::chrono::steady_clock::now();
  result_.emplace(std::move(spare_));
  layout_.Build(plan, limits_.vocab_size, options_.logits_tap != nullptr);
  CHECK_LE(layout_.tokens().size(), static_cast<size_t>(limits_.max_step_tokens));
  state_slices_.clear();
  for (size_t i = 0; limits_.state_slots != 0 && i < plan.slices.size(); ++i) {
    CHECK(plan.slices[i].drafts == 0 && !plan.abortable) << "a state cannot be taken back";
    const kernels::AttentionSequence& rows = layout_.sequences()[i];
    state_slices_.push_back({rows.first_row, rows.rows, StateSlot(plan.slices[i].state)});
  }
  model::DecoderBatch batch;
  if (!plan.slices.empty()) {
    Result<model::DecoderBatch> prepared = PreparePass(plan);
    if (!prepared.ok()) {
      result_->status = std::move(prepared).status();
      return;
    }
    batch = *prepared;
  }
  result_->slices.resize(plan.slices.size());
  for (const HeadRow& row : layout_.head()) {
    if (row.sample && row.draw > 0) {
      const engine::SequenceSlice& slice = plan.slices[static_cast<size_t>(row.slice)];
      if (slice.sampler->params->logprobs >= 0)
        result_->slices[static_cast<size_t>(row.slice)].more_logprobs.resize(
            static_cast<size_t>(slice.drafts));
    }
    if (row.successor == kNoToken) continue;
    auto& scored = result_->slices[static_cast<size_t>(row.slice)].prompt_logprobs;
    const int32_t unscored = plan.slices[static_cast<size_t>(row.slice)].unscored;
    scored.resize(std::max(scored.size(), static_cast<size_t>(row.offset - unscored) + 1));
  }
  if (!plan.slices.empty() || !plan.copies.empty()) {
    last_layer_.store(INT_MAX, std::memory_order_relaxed);
    pool_.Run([&](model::Team& team) { RunStep(plan, batch, team); });
    result_->aborted = last_layer_.load(std::memory_order_relaxed) != INT_MAX;
    if (!result_->aborted) ReportRows(plan);
  }
  result_->forward = std::chrono::steady_clock::now() - start;
}

engine::StepResult CpuModelRunner::Collect() {
  CHECK(result_.has_value()) << "nothing was launched";
  engine::StepResult result = std::move(*result_);
  result_.reset();
  return result;
}

void CpuModelRunner::Recycle(engine::StepResult used) {
  spare_ = std::move(used);
  spare_.status = OkStatus();
  spare_.aborted = false;
  spare_.slices.clear();  // frees their contents: prompt_logprobs of a long chunk may be large
}

kv::PrefixShape CpuModelRunner::memory_shape() const {
  return {.block_bytes = decoder_->kv_block_bytes(),
          .window_block_bytes = limits_.window_blocks > 0 ? decoder_->window_block_bytes() : 0,
          .state_bytes = limits_.state_slots > 0 ? decoder_->state_bytes() : 0};
}

void CpuModelRunner::CopyOut(engine::MemoryKind kind, int32_t id, std::span<std::byte> out) {
  CHECK(!result_.has_value()) << "a copy during a step";
  switch (kind) {
    case engine::MemoryKind::kBlock:
      CHECK(id >= 0 && id < limits_.kv_blocks && out.size() == decoder_->kv_block_bytes());
      return decoder_->PackBlock(kv_.data(), limits_.kv_blocks, id, out.data(), /*window=*/false);
    case engine::MemoryKind::kWindowBlock:
      CHECK(id >= 0 && id < limits_.window_blocks && out.size() == decoder_->window_block_bytes());
      return decoder_->PackBlock(window_kv_.data(), limits_.window_blocks, id, out.data(),
                                 /*window=*/true);
    case engine::MemoryKind::kState:
      CHECK_EQ(out.size(), decoder_->state_bytes());
      std::memcpy(out.data(), StateSlot(id), out.size());
  }
}

void CpuModelRunner::CopyIn(engine::MemoryKind kind, int32_t id, std::span<const std::byte> in) {
  CHECK(!result_.has_value()) << "a copy during a step";
  switch (kind) {
    case engine::MemoryKind::kBlock:
      CHECK(id >= 0 && id < limits_.kv_blocks && in.size() == decoder_->kv_block_bytes());
      return decoder_->UnpackBlock(in.data(), kv_.data(), limits_.kv_blocks, id, /*window=*/false);
    case engine::MemoryKind::kWindowBlock:
      CHECK(id >= 0 && id < limits_.window_blocks && in.size() == decoder_->window_block_bytes());
      return decoder_->UnpackBlock(in.data(), window_kv_.data(), limits_.window_blocks, id,
                                   /*window=*/true);
    case engine::MemoryKind::kState:
      CHECK_EQ(in.size(), decoder_->state_bytes());
      std::memcpy(StateSlot(id), in.data(), in.size());
  }
}

Result<model::DecoderBatch> CpuModelRunner::PreparePass(const engine::StepPlan& plan) {
  ASSIGN_OR_RETURN(model::DecoderBatch batch, pass_.Prepare(layout_.tokens(), layout_.sequences(),
                                                            layout_.window_sequences()));
  batch.kv = kv_.data();
  batch.kv_blocks = limits_.kv_blocks;
  batch.window.kv = window_kv_.data();
  batch.window.blocks = limits_.window_blocks;
  batch.states = state_slices_;
  batch.lora = layout_.lora();
  if (plan.abortable) {
    batch.abort_flag = urgent_;
    batch.last = &last_layer_;
  }
  return batch;
}

float* CpuModelRunner::LogitsRow(int index_in_batch) {
  return reinterpret_cast<float*>(logits_.data()) +
         static_cast<size_t>(index_in_batch) * static_cast<size_t>(decoder_->logits_stride());
}

// On every worker: copies, layers, then the head in rounds with the rows of each round finished on
// the pool.
void CpuModelRunner::RunStep(const engine::StepPlan& plan, const model::DecoderBatch& batch,
                             model::Team& team) {
  if (!plan.copies.empty() || !plan.window_copies.empty()) CopyBlocks(plan, team);
  if (plan.slices.empty()) return;
  if (!state_slices_.empty()) BeginStates(plan, team);
  if (!decoder_->RunLayers(batch, team)) return;
  if (!state_slices_.empty()) SaveStates(plan, team);

  const std::span<const HeadRow> head = layout_.head();
  const auto round_rows = static_cast<size_t>(decoder_->options().max_head_rows);
  for (size_t begin = 0; begin < head.size(); begin += round_rows) {
    const size_t count = std::min(round_rows, head.size() - begin);
    const std::span<const HeadRow> round = head.subspan(begin, count);
    float* logits[kMaxHeadRows];
    bool any = false;
    for (size_t i = 0; i < count; ++i) {
      logits[i] = round[i].needs_logits ? LogitsRow(static_cast<int>(i)) : nullptr;
      any |= round[i].needs_logits;
    }
    model::HeadBatch out;
    out.rows = layout_.head_rows().subspan(begin, count);
    if (any) out.logits = {logits, count};
    decoder_->RunHead(out, team);
    // Workers take single rows: sampling a row takes a hundred times as long as a known argmax.
    team.ForEachInOrder(static_cast<int>(count), [&](int i) {
      FinishRow(plan, round[static_cast<size_t>(i)], i, team.worker());
    });
  }
}

void CpuModelRunner::CopyBlocks(const engine::StepPlan& plan, model::Team& team) {
  // Copies run in order, since one may read what an earlier one wrote; all workers share each copy.
  for (const engine::BlockCopy& copy : plan.copies) {
    CHECK(copy.from >= 0 && copy.from < limits_.kv_blocks && copy.to >= 0 &&
          copy.to < limits_.kv_blocks);
    if (copy.from != copy.to)
      decoder_->CopyBlock(kv_.data(), limits_.kv_blocks, copy.from, copy.to, team);
  }
  for (const engine::BlockCopy& copy : plan.window_copies) {
    CHECK(copy.from >= 0 && copy.from < limits_.window_blocks && copy.to >= 0 &&
          copy.to < limits_.window_blocks);
    if (copy.from == copy.to) continue;
    decoder_->CopyBlock(window_kv_.data(), limits_.window_blocks, copy.from, copy.to, team,
                        /*window=*/true);
  }
}

std::byte* CpuModelRunner::StateSlot(kv::SlotId slot) {
  CHECK(slot >= 0 && slot < limits_.state_slots) << slot;
  return states_.data() + static_cast<size_t>(slot) * decoder_->state_bytes();
}

void CpuModelRunner::BeginStates(const engine::StepPlan& plan, model::Team& team) {
  team.ForEachRow(static_cast<int>(plan.slices.size()), [&](size_t i) {
    const engine::SequenceSlice& slice = plan.slices[i];
    if (slice.state_from != kv::kNoSlot) {
      std::memcpy(StateSlot(slice.state), StateSlot(slice.state_from), decoder_->state_bytes());
    } else if (slice.start == 0) {
      std::memset(StateSlot(slice.state), 0, decoder_->state_bytes());
    }
  });
}

void CpuModelRunner::SaveStates(const engine::StepPlan& plan, model::Team& team) {
  team.ForEachRow(static_cast<int>(plan.slices.size()), [&](size_t i) {
    const engine::SequenceSlice& slice = plan.slices[i];
    if (slice.state_save != kv::kNoSlot)
      std::memcpy(StateSlot(slice.state_save), StateSlot(slice.state), decoder_->state_bytes());
  });
}

// Argmax, sampling and log-probabilities of one row, on one worker.
void CpuModelRunner::FinishRow(const engine::StepPlan& plan, const HeadRow& row, int index_in_batch,
                               int worker) {
  const engine::SequenceSlice& slice = plan.slices[static_cast<size_t>(row.slice)];
  engine::SliceResult& result = result_->slices[static_cast<size_t>(row.slice)];
  kernels::ArgmaxState best = decoder_->Best(index_in_batch);
  if (!std::isfinite(best.value)) best.id = kernels::kNoArgmax;
  const auto more = static_cast<size_t>(row.draw) - 1;  // of rows of draft tokens
  if (!row.needs_logits) {
    if (row.draw > 0) {
      result.more_tokens[more] = best.id == kernels::kNoArgmax ? kNoToken : best.id;
    } else if (best.id == kernels::kNoArgmax) {
      result.status = sampling::LogitsNotFinite();
    } else {
      result.token = best.id;
    }
    return;
  }

  SamplerSlot& slot = *samplers_[static_cast<size_t>(worker)];
  const std::span<float> logits(LogitsRow(index_in_batch), static_cast<size_t>(limits_.vocab_size));
  if (options_.logits_tap != nullptr)
    options_.logits_tap(slice.sequence, slice.start + row.offset, logits);
  if (row.successor != kNoToken) {
    const bool first = row.offset == slice.unscored;
    result.prompt_logprobs[static_cast<size_t>(row.offset - slice.unscored)] =
        sampling::RowLogprobsOf(logits, row.successor, slice.prompt_logprobs, slot.scratch,
                                first ? slice.alternatives : std::span<const TokenId>());
  }
  if (!row.sample) return;

  const int alternatives = slice.sampler->params->logprobs;
  std::span<float> scratch_row = logits;
  if (alternatives >= 0) {
    std::copy(logits.begin(), logits.end(), slot.copy.begin());
    scratch_row = slot.copy;
  }
  const sampling::Draw draw =
      sampling::SampleRow(scratch_row, engine::HistoryOf(slice, row.draw), slot.scratch);
  if (row.draw > 0) {
    if (!draw.status.ok()) return;
    result.more_tokens[more] = draw.token;
    if (alternatives >= 0)
      result.more_logprobs[more] =
          sampling::RowLogprobsOf(logits, draw.token, alternatives, slot.scratch);
    return;
  }
  result.status = draw.status;
  if (!draw.status.ok()) return;
  result.token = draw.token;
  if (alternatives >= 0) {
    result.logprobs = sampling::RowLogprobsOf(logits, draw.token, alternatives, slot.scratch);
  }
}

// Combines the faults that rows of a slice found on several workers, on one thread.
void CpuModelRunner::ReportRows(const engine::StepPlan& plan) {
  for (size_t i = 0; i < plan.slices.size(); ++i) {
    engine::SliceResult& result = result_->slices[i];
    if (layout_.bad_token(static_cast<int>(i))) {
      result = {};
      result.status =
          InvalidArgument("token_out_of_range", "a token id outside the model's vocabulary of " +
                                                    std::to_string(limits_.vocab_size));
      continue;
    }
    const auto not_a_number = [](const sampling::RowLogprobs& row) {
      return !std::isfinite(row.chosen.logprob);
    };
    if (result.status.ok() &&
        std::any_of(result.prompt_logprobs.begin(), result.prompt_logprobs.end(), not_a_number)) {
      result.status = sampling::LogitsNotFinite();
    }
  }
}

}  // namespace tutti::runner
