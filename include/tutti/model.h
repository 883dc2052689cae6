// Model: one loaded model, shared by all threads of a program; and ModelOptions, how to load it.
//
//   tutti::Model model = tutti::Model::Load(tutti::ModelOptions("model.gguf")).value();
//   tutti::Completion answer = model.Generate({.prompt = tutti::UserMessage("Hello!")}).value();
//
// A Model is a handle: copying it copies no weights, and the model stays loaded while a handle, a
// job or a state of it is left. Every call is const and for any thread; requests of all threads
// share each forward pass, and what a request says does not depend on the others. The weights are
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

// Values are checked by Model::Load, together. Not thread-safe.
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
  ModelOptions& Lanes(int sequences);        // in one forward pass; default 8
  ModelOptions& Queue(int requests);  // accepted beyond the lanes; default 256, then queue_full
  ModelOptions& Context(int tokens);  // of a sequence; default: the model's, at most 8192
  ModelOptions& Schedule(Strategy strategy);
  ModelOptions& PrefixCache(bool on);
  // Any option of the program's model commands by its long name ("prefill-chunk", "dtype"; see
  // `tutti run --help`).
  ModelOptions& Set(std::string_view name, std::string_view value);
  // Called while loading, on the loading thread: bytes packed so far and in all.
  ModelOptions& OnProgress(std::function<void(size_t done, size_t total)> progress);

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

class TUTTI_API Model {
 public:
  // Reads and packs the weights and starts the model's threads: seconds. Errors: model_not_found,
  // gguf_*, model_*, tokenizer_*, invalid_value and unknown_parameter for options.
  static Expected<Model> Load(const ModelOptions& options);

  Model(const Model&);
  Model& operator=(const Model&);
  Model(Model&&) noexcept;  // what was moved from can only be assigned to or destroyed
  Model& operator=(Model&&) noexcept;
  ~Model();  // the last handle, job or state unloads the model

  // One answer, waited for. With a handler, it is called on this thread with each piece.
  Expected<Completion> Generate(Request request) const;
  Expected<Completion> Generate(Request request, const TokenHandler& handler) const;

  // Starts one and returns at once. What can be refused at once is refused here; the rest by
  // Job::Join.
  Expected<Job> Submit(Request request) const;
  // The same with a handler, called on a thread of the job's own.
  Expected<Job> Spawn(Request request, TokenHandler handler) const;

  // A generation in steps; n must be 1 and max_tokens not 0. The prompt is rendered and tokenised
  // here, on this thread, and refused here if it must be; it is computed when the first step asks.
  Expected<StepState> CreateState(Request request) const;
  Expected<StepState> CreateState(Prompt prompt, int max_tokens) const;  // greedy
  // Draws one token. The first computes the prompt.
  Expected<StepResult> Step(StepState& state) const;

  Expected<std::vector<TokenId>> Tokenize(const Prompt& prompt) const;
  Expected<std::string> Detokenize(const std::vector<TokenId>& tokens) const;
  Expected<std::string> Render(const Chat& chat) const;  // the prompt's text

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
