// CpuModelRunner: runs the engine's steps on this machine's cores.
//
// Turns a StepPlan into one forward pass over all its rows, samples the rows that ask for it on the
// compute pool, and reports per slice. Owns the KV memory and the decoder's scratch; shares the
// weights and the compute threads. Owner: the composition root. Thread: Create anywhere, then the
// engine thread alone (it is worker 0 of the pool). Launch does the whole step; Collect hands out
// its result. Errors: a row whose logits are not numbers, or a token outside the vocabulary, fails
// its own slice (SliceResult::status); a plan that breaks its contract (rows, blocks, order) is a
// bug of the engine and CHECKed. A steady step of decode rows without logprobs allocates nothing,
// given that results come back through Recycle.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "engine/model_runner.h"
#include "kernels/kernels.h"
#include "model/adapters/lora.h"
#include "model/decoder.h"
#include "model/weights.h"
#include "runner/compute_pool.h"
#include "runner/decoder_pass.h"

namespace tutti::runner {

// A LoRA adapter of the model of a CpuModelRunner, which was made for its weights' configuration.
class CpuAdapter final : public engine::Adapter {
 public:
  explicit CpuAdapter(std::shared_ptr<const model::LoraAdapter> lora)
      : Adapter(lora->digest()), lora_(std::move(lora)) {}
  const model::LoraAdapter& lora() const { return *lora_; }

 private:
  const std::shared_ptr<const model::LoraAdapter> lora_;
};

// A row whose logits or argmax are needed.
struct HeadRow {
  int32_t row = 0;               // of the step
  int32_t slice = 0;             // of the plan
  int32_t offset = 0;            // of the row in its slice
  TokenId successor = kNoToken;  // whose log-probability to report, or none
  bool sample = false;           // draw the next token from it
  int32_t draw = 0;              // number of the draw in its slice (engine::HistoryOf)
  bool needs_logits = false;     // false: the argmax answers it
};

// Maps the slices of a StepPlan to the rows of the forward pass, and lists the rows whose logits
// are needed.
//
// Pure function of the plan. Member of CpuModelRunner; rebuilt for every step on the engine thread
// in reused memory, read by the compute threads.
class StepLayout {
 public:
  void Reserve(int max_tokens, int max_slices);

  // Lays the plan out. Tokens outside [0, vocab_size) are replaced by 0 and their slices marked.
  void Build(const engine::StepPlan& plan, int vocab_size, bool all_logits);

  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const kernels::AttentionSequence> sequences() const { return sequences_; }
  // The same rows with the blocks of layers with a window; empty where these have none of their
  // own.
  std::span<const kernels::AttentionSequence> window_sequences() const { return window_sequences_; }
  // The rows with adapters, those of an adapter together, in the order of the slices.
  model::LoraBatch lora() const { return {lora_rows_, lora_groups_}; }
  std::span<const HeadRow> head() const { return head_; }
  std::span<const int32_t> head_rows() const { return head_rows_; }  // head()[i].row
  // True where the slice holds a token that the vocabulary does not have.
  bool bad_token(int slice) const { return bad_token_[static_cast<size_t>(slice)] != 0; }

 private:
  void AddHeadRows(const engine::SequenceSlice& slice, int32_t index, int32_t first_row,
                   bool all_logits);
  void GroupByAdapter(const engine::StepPlan& plan);

  std::vector<TokenId> tokens_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<kernels::AttentionSequence> window_sequences_;
  std::vector<int32_t> lora_rows_;
  std::vector<model::LoraBatch::Group> lora_groups_;
  std::vector<HeadRow> head_;
  std::vector<int32_t> head_rows_;
  std::vector<uint8_t> bad_token_;
};

struct CpuRunnerOptions {
  const kernels::KernelTable* kernels = nullptr;  // required
  std::shared_ptr<ComputePool> pool;              // required; shared with the device's other models
  size_t kv_bytes = 0;  // KV memory, at least one block; rounded down to whole blocks
  // > 0: layers with a sliding window have memory for so many blocks of their own, and the others
  // for `kv_blocks`; `kv_bytes` is not read. For a model that has such layers.
  int window_blocks = 0;
  int64_t kv_blocks = 0;
  // Slots of recurrent states, at least one for a model that has them; in addition to kv_bytes.
  int state_slots = 0;
  model::KvDtype kv_dtype = model::KvDtype::kByWeights;
  int context = 0;            // tokens per sequence, 1 .. the model's own
  int max_step_tokens = 512;  // rows of one step
  int max_step_slices = 256;
  bool adapters = false;       // slices may have a CpuAdapter; takes scratch memory
  bool share_prefixes = true;  // read blocks several decoding sequences share once for all
  // For tests: receives the raw logits of every row that is sampled or scored, on a compute thread,
  // in no order.
  std::function<void(uint32_t sequence, int position, std::span<const float> logits)> logits_tap =
      nullptr;
};

class CpuModelRunner final : public engine::ModelRunner {
 public:
  // Errors: out_of_memory; invalid_value when kv_bytes holds no block or a limit is out of
  // range.
  static Result<std::unique_ptr<CpuModelRunner>> Create(
      std::shared_ptr<const model::Weights> weights, const CpuRunnerOptions& options);
  ~CpuModelRunner() override;

  // Bytes one KV block takes in all layers: kv_blocks = kv_bytes / this.
  static size_t KvBlockBytes(const model::Weights& weights, const kernels::KernelTable& kernels,
                             model::KvDtype kv_dtype = model::KvDtype::kByWeights) {
    return model::Decoder::KvBlockBytes(weights.config(), weights.mode(), kernels, kv_dtype);
  }

  // KV memory, states and scratch; not the weights.
  size_t memory_bytes() const {
    return kv_.size() + window_kv_.size() + states_.size() + logits_.size() +
           decoder_->scratch_bytes();
  }

  engine::RunnerLimits limits() const override { return limits_; }
  void Launch(const engine::StepPlan& plan) override;
  engine::StepResult Collect() override;
  void SetAbortFlag(const std::atomic<bool>* urgent) override { urgent_ = urgent; }
  void Recycle(engine::StepResult used) override;
  kv::PrefixShape memory_shape() const override;
  void CopyOut(engine::MemoryKind kind, int32_t id, std::span<std::byte> out) override;
  void CopyIn(engine::MemoryKind kind, int32_t id, std::span<const std::byte> in) override;

 private:
  struct SamplerSlot;  // what one compute thread samples with

  CpuModelRunner(const CpuRunnerOptions& options, std::unique_ptr<model::Decoder> decoder,
                 kernels::AlignedBuffer kv, kernels::AlignedBuffer window_kv,
                 kernels::AlignedBuffer states, kernels::AlignedBuffer logits,
                 engine::RunnerLimits limits);
  Result<model::DecoderBatch> PreparePass(const engine::StepPlan& plan);
  void RunStep(const engine::StepPlan& plan, const model::DecoderBatch& batch, model::Team& team);
  void CopyBlocks(const engine::StepPlan& plan, model::Team& team);
  // Before the layers: each slice's state as its plan says. After them: the wanted copies.
  void BeginStates(const engine::StepPlan& plan, model::Team& team);
  void SaveStates(const engine::StepPlan& plan, model::Team& team);
  std::byte* StateSlot(kv::SlotId slot);
  void FinishRow(const engine::StepPlan& plan, const HeadRow& row, int index_in_batch, int worker);
  void ReportRows(const engine::StepPlan& plan);
  float* LogitsRow(int index_in_batch);

  const CpuRunnerOptions options_;
  const engine::RunnerLimits limits_;
  ComputePool& pool_;  // of options_
  const std::unique_ptr<model::Decoder> decoder_;
  kernels::AlignedBuffer kv_;
  kernels::AlignedBuffer window_kv_;                    // of layers with a window, or empty
  kernels::AlignedBuffer states_;                       // [state slots][decoder's state_bytes()]
  kernels::AlignedBuffer logits_;                       // [max head rows][logits stride]
  std::vector<std::unique_ptr<SamplerSlot>> samplers_;  // one per worker
  const std::atomic<bool>* urgent_ = nullptr;

  // State of the step in flight; members so that their memory is reused.
  StepLayout layout_;
  DecoderPass pass_;
  std::vector<model::StateSlice> state_slices_;
  std::optional<engine::StepResult> result_;
  std::atomic<int> last_layer_{0};  // of an aborted step; else INT_MAX
  engine::StepResult spare_;        // empty; keeps the memory of its slices
};

}  // namespace tutti::runner
