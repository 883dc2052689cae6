// DraftPlan: the smaller model that drafts tokens for a decoder (--draft). Open() checks it against
// the decoder; loading it gives a model runner of its own.
//
// Owned by the decoder's plan; one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/config/settings.h"
#include "app/loading/model_plan.h"
#include "app/loading/model_registry.h"
#include "base/status.h"
#include "model/decoder_checkpoint.h"
#include "model/weights.h"
#include "runner/compute_pool.h"
#include "runner/cpu_model_runner.h"
#include "tokenizer/tokenizer.h"

namespace tutti::app {

enum class Speculate { kOff, kNgram, kDraft };

// Combines --speculate and --draft. --draft alone means `draft`; with another value of --speculate
// the draft model is not loaded. Errors: invalid_value for `draft` without a model.
Result<Speculate> SpeculateFromSettings(const Settings& settings);

// Properties of the target model that a draft model must match or share.
struct DraftHost {
  const tokenizer::Tokenizer* tokenizer = nullptr;
  int rows = 0;  // of the embedding: tokens that a prompt or an answer may hold
  const kernels::KernelTable* kernels = nullptr;
  int context = 0;  // tokens of a sequence
  int max_num_seqs = 0;
};

class DraftPlan {
 public:
  // Errors: of the model's name and files; invalid_value where its tokens are not the host's, with
  // the first that differs. No weight is read.
  static Result<DraftPlan> Open(const Settings& settings, const DraftHost& host);

  // "llama Q4_0 of 80 MiB, 270 KV blocks of int8"
  const std::string& summary() const { return summary_; }
  // Bytes: of its KV memory, and of its weights as they are held.
  size_t kv_bytes() const { return options_.kv_bytes; }
  size_t weight_bytes() const { return weight_bytes_; }

  // Reads and packs the weights; `progress` as ModelPlan::Load. Once.
  Result<std::unique_ptr<runner::CpuModelRunner>> Load(std::function<bool(size_t, size_t)> progress,
                                                       std::shared_ptr<runner::ComputePool> pool);

 private:
  DraftPlan() = default;
  Status Named(Status status) const;  // of the option and the file

  ModelRef ref_;
  model::DecoderCheckpoint checkpoint_;
  model::WeightMode mode_ = model::WeightMode::kInt8;
  runner::CpuRunnerOptions options_;
  std::string summary_;
  size_t weight_bytes_ = 0;
};

// OK where both hold the same tokens, by number and by spelling.
Status CheckSameTokens(const tokenizer::Vocabulary& model, const tokenizer::Vocabulary& draft);

}  // namespace tutti::app
