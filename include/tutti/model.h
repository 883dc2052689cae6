// Model: a loaded model, shared by all threads of a program. ModelOptions: how to load it.
//
//   tutti::Model model = tutti::Model::Load(tutti::ModelOptions("model.gguf")).value();
//   tutti::Completion answer = model.Generate({.prompt = tutti::UserMessage("Hello!")}).value();
//
// A Model is a handle: copies share the weights, and the model stays loaded while a handle, Job or
// StepState of it exists. All calls are const; any thread may use them. Requests of all threads are
// batched into common forward passes, and no answer depends on the other requests. The weights are
// packed once, into pages that are read-only from then on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/handler.h"
#include "tutti/job.h"
#include "tutti/step.h"
#include "tutti/types.h"

namespace tutti {

enum class Strategy { kContinuous, kInterleaved, kBlocking, kStatic };

// Setters do not check values; Model::Load checks all of them. Not thread-safe.
class TUTTI_API ModelOptions {
 public:
  // A .gguf file, or the name of a known model in the cache; empty: the default model.
  explicit ModelOptions(std::string model = "");
  ModelOptions(const ModelOptions&);
  ModelOptions& operator=(const ModelOptions&);
  ~ModelOptions();

  ModelOptions& Path(std::string model);
  ModelOptions& Threads(int compute_threads);  // default: the processors this process may use
  ModelOptions& Isa(
      std::string_view name);  // scalar, avx2, avxvnni, avx512vnni; default: the best here
  ModelOptions& KvCacheBytes(size_t bytes);  // default 1 GiB
  ModelOptions& MaxNumSeqs(int sequences);   // in one forward pass; default 8
  ModelOptions& Queue(int requests);  // that wait; default 256; more are refused with queue_full
  ModelOptions& Context(int tokens);  // of a sequence; default: the model's, at most 8192
  ModelOptions& Schedule(Strategy strategy);
  ModelOptions& PrefixCache(bool on);
  // Sets any model option of the `tutti` program by its long name ("prefill-chunk", "dtype"; see
  // `tutti run --help`).
  ModelOptions& Set(std::string_view name, std::string_view value);
  // `progress` is called on the loading thread with the bytes packed so far and the total.
  ModelOptions& OnProgress(std::function<void(size_t done, size_t total)> progress);

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

class TUTTI_API Model {
 public:
  // Reads and packs the weights and starts the model's threads; takes seconds. Errors:
  // model_not_found, gguf_*, model_*, tokenizer_*; invalid_value and unknown_parameter for options.
  static Expected<Model> Load(const ModelOptions& options);

  Model(const Model&);
  Model& operator=(const Model&);
  Model(Model&&) noexcept;  // a moved-from Model can only be assigned to or destroyed
  Model& operator=(Model&&) noexcept;
  ~Model();  // the last handle, job or state unloads the model

  // Generates an answer and blocks until it is complete. `handler` is called on the calling thread
  // with each piece.
  Expected<Completion> Generate(Request request) const;
  Expected<Completion> Generate(Request request, const TokenHandler& handler) const;

  // Starts a generation and returns at once. Errors that are found later are returned by Job::Join.
  Expected<Job> Submit(Request request) const;
  // Like Submit; a thread of the job calls `handler` with each piece.
  Expected<Job> Spawn(Request request, TokenHandler handler) const;

  // Prepares a stepwise generation; n must be 1 and max_tokens not 0. Renders and tokenizes the
  // prompt on the calling thread and returns errors in it; the first Step() computes the prompt.
  Expected<StepState> CreateState(Request request) const;
  Expected<StepState> CreateState(Prompt prompt, int max_tokens) const;  // greedy
  // Generates one token. The first call computes the prompt.
  Expected<StepResult> Step(StepState& state) const;

  Expected<std::vector<TokenId>> Tokenize(const Prompt& prompt) const;
  Expected<std::string> Detokenize(const std::vector<TokenId>& tokens) const;
  Expected<std::string> Render(const Chat& chat) const;  // applies the chat template

  ModelInfo info() const;
  Stats stats() const;  // a snapshot from atomics

  struct State;
  explicit Model(std::shared_ptr<State> state);
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

TUTTI_API const char* Version();  // "0.1.0"

}  // namespace tutti
