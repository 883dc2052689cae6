// Session: an engine for a bench. Stepped by hand on the calling thread, so that timings include
// nothing but the engine: no wake-ups, no socket, no second thread that competes with the compute
// threads. With a thread of its own, the engine serves clients through gateway(), as it serves a
// server.
//
// Options come from the given flags (keys of the options table), TUTTI_* variables and defaults.
// Not thread-safe. Errors: those of loading and of the requests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/local_inference.h"
#include "bench/machine.h"
#include "gateway/gateway.h"
#include "grammar/token_masker.h"
#include "model/config.h"

namespace tutti::bench {

using Flags = std::map<std::string, std::string>;  // option key -> text

// One of several requests that were served together. Times count from the submission of all.
struct ServedRequest {
  std::vector<TokenId> output;
  double first_token_s = 0, end_s = 0;
};

class Session {
 public:
  enum class Stepping {
    kByHand,     // by Serve() and PrefillThenDecode(), on the calling thread
    kOwnThread,  // by the engine's thread, for requests that come through gateway()
  };
  enum class Passes { kFused, kOneOperationAtATime };  // the second is the baseline of the first
  static Result<std::unique_ptr<Session>> Load(const std::string& model, const Flags& flags,
                                               Stepping stepping = Stepping::kByHand,
                                               Passes passes = Passes::kFused);

  // Checks what does not need the weights: files, options, and whether a sequence may have `tokens`
  // tokens. For benches that would otherwise fail late.
  static Status Check(const std::string& model, const Flags& flags, int tokens = 0);

  // Serves all prompts at once, each with `new_tokens` tokens, ignoring EOS. Above temperature 0,
  // request i samples with seed i. By hand only.
  Result<std::vector<ServedRequest>> Serve(const std::vector<std::vector<TokenId>>& prompts,
                                           int new_tokens, double temperature = 0);

  // Serves all prompts at once and greedily, each until its answer, limited by `constraint`, has
  // ended or has `max_tokens`. By hand only.
  Result<std::vector<ServedRequest>> ServeConstrained(
      const std::vector<std::vector<TokenId>>& prompts, int max_tokens,
      const std::shared_ptr<grammar::TokenMasker>& constraint);
  // The bytes of the model's tokens, for constraints.
  std::shared_ptr<const grammar::TokenTrie> Trie() const;

  // Runs all prompts until each has its first token, then decodes all together until each has 1 +
  // `new_tokens`.
  struct TwoPhases {
    double prefill_s = 0, decode_s = 0;
    std::vector<ServedRequest> requests;
  };
  Result<TwoPhases> PrefillThenDecode(const std::vector<std::vector<TokenId>>& prompts,
                                      int new_tokens);

  // After each step that is stepped by hand, waits for this share of the step's time, so that a
  // comparison can be tested with a program that is slower by a known amount.
  void SlowDown(double share) { slowdown_ = share; }

  // Reads an adapter of the model, for which the flags must have `lora`; `summary` is for people.
  Result<std::shared_ptr<const engine::Adapter>> OpenAdapter(const std::string& path,
                                                             std::string* summary) const;
  // Sets the adapters of all later requests: the i-th one of a call uses adapter i, in turn. None:
  // the model itself.
  void UseAdapters(std::vector<std::shared_ptr<const engine::Adapter>> adapters) {
    adapters_ = std::move(adapters);
  }

  app::LocalInference& inference() { return *inference_; }
  gateway::Gateway& gateway() { return inference_->gateway(); }
  engine::Engine& engine() { return *served_->engine; }
  const kernels::KernelTable& kernels() const { return *kernels_; }
  int threads() const { return threads_; }
  int context() const { return served_->info.max_model_len; }
  int vocabulary() const { return served_->info.vocab_size; }
  std::vector<TokenId> Tokens(std::string_view text) const {
    return served_->tokenizer->Encode(text);
  }
  const std::string& model_name() const { return served_->info.id; }
  const std::string& summary() const { return summary_; }
  const ModelCost& cost() const { return cost_; }
  // See model::Decoder::RegionsPerLayer.
  int regions_per_layer(int rows) const;

 private:
  struct Running;  // requests that are submitted and not yet ended
  Session(app::Settings settings);
  Result<Running> SubmitAll(const std::vector<std::vector<TokenId>>& prompts, int new_tokens,
                            bool stepwise, double temperature = 0,
                            std::shared_ptr<grammar::TokenMasker> constraint = nullptr);
  enum class Until { kTokens, kTokensOrEnd };
  Status StepUntil(Running& running, size_t tokens_each, Until until = Until::kTokens);

  const app::Settings settings_;
  std::unique_ptr<app::LocalInference> inference_;
  std::shared_ptr<const gateway::ServedModel> served_;
  std::vector<std::shared_ptr<const engine::Adapter>> adapters_;
  const kernels::KernelTable* kernels_ = nullptr;
  int threads_ = 1;
  std::string summary_;
  ModelCost cost_;
  model::ModelConfig config_;
  Passes passes_ = Passes::kFused;
  double slowdown_ = 0;
};

// Results of ServeInBatches().
struct ServedBatches {
  double seconds = 0;  // from each batch's first token to its last
  double tokens = 0;   // after the first of each request
  std::vector<std::vector<TokenId>> outputs;
};
// Serves `prompts` in batches of `size`, each by one call of `serve`. Errors: those of `serve`.
Result<ServedBatches> ServeInBatches(const std::vector<std::vector<TokenId>>& prompts, int size,
                                     const std::function<Result<std::vector<ServedRequest>>(
                                         const std::vector<std::vector<TokenId>>& batch)>& serve);

// `count` prompts of `tokens` pseudo-random ids (from low to high tokens if `most` is larger).
// Prompt i depends on the seed and i only.
std::vector<std::vector<TokenId>> RandomPrompts(int vocabulary, int count, int tokens,
                                                uint64_t seed, int most = 0);

// Fingerprint of outputs for reports: FNV-1a over the ids, in order.
uint64_t Fingerprint(std::span<const ServedRequest> requests);

}  // namespace tutti::bench
