// Gateway: api::Inference in process: look-up, validation, a place in the queue, template,
// tokeniser, engine.
//
// Owned by the composition root. Every call is for any thread and never waits for inference. Small
// prompts are prepared on the calling thread while fewer than `prep` are, large ones on the prep
// pool, and so are those whose answer another machine may have; the place in the queue is taken
// before either.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/answer_cache.h"
#include "api/encoding_cache.h"
#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_pace.h"
#include "base/mutex.h"
#include "gateway/constraints.h"
#include "gateway/prep_pool.h"
#include "gateway/served_model.h"

namespace tutti::gateway {

struct GatewayOptions {
  int prep = 12;                      // most requests prepared at once (prep_pool.h)
  int prep_threads = 2;               // of the prep pool
  size_t inline_prompt_bytes = 4096;  // larger prompts go to the prep pool
  // What becomes of reasoning in answers to chats. Absent: told apart for models whose template
  // shows the tags around it, else kept.
  std::optional<api::ReasoningMode> reasoning = {};
  Logger* log = nullptr;  // outlives the gateway and its engines; may be null
};

class Gateway final : public api::Inference {
 public:
  // `clock` outlives the gateway.
  Gateway(const GatewayOptions& options, const Clock& clock);

  // Models of these names are being loaded: until each is added, requests for it get model_loading.
  void Expect(std::vector<std::string> names);
  // The model answers from now on. Requests that name none go where api::DefaultGenerator() says,
  // and encodings where api::EncoderFor() does.
  void AddModel(std::shared_ptr<const ServedModel> model);
  // Generations use this cache, except those that are stepped. To be called before the first
  // request.
  void UseAnswers(std::shared_ptr<api::AnswerCache> answers) { answers_ = std::move(answers); }
  // Encodings use this cache. To be called before the first request.
  void UseRows(std::shared_ptr<api::EncodingCache> rows) { rows_ = std::move(rows); }

  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<api::StreamWaker> waker) override;
  // Generate() for a caller who steps: nothing is drawn but what `control` grants. The prompt is
  // prepared on the calling thread, whatever its size.
  struct Stepwise {
    api::Generation generation;
    std::shared_ptr<engine::RequestControl> control;
  };
  Result<Stepwise> GenerateStepwise(api::GenerateRequest request,
                                    std::shared_ptr<api::StreamWaker> waker);
  Result<api::Encoding> Encode(api::EncodeRequest request,
                               std::shared_ptr<api::StreamWaker> waker) override;
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override;
  Result<std::string> Detokenize(const api::DetokenizeRequest& request) override;
  std::vector<api::ModelInfo> Models() const override;
  api::LoadSnapshot Load() const override;  // of all models together
  Result<api::ModelStatistics> Statistics(const std::string& model) const override;
  // Requests in preparation, or waiting for it.
  int preparing() const { return pool_.load() + compile_pool_.load(); }

  // The model of that name; api::DefaultGenerator() for "". Errors: model_loading, model_not_found.
  Result<std::shared_ptr<const ServedModel>> Find(const std::string& name) const;

 private:
  struct Pending;  // one request between acceptance and submission
  Result<Stepwise> Accept(api::GenerateRequest request, std::shared_ptr<api::StreamWaker> waker,
                          bool stepwise);
  // Checks the request and takes its place in the queue.
  Result<std::shared_ptr<Pending>> Queue(std::shared_ptr<const ServedModel> model,
                                         api::GenerateRequest request);
  Status StillWanted(const engine::Ticket& ticket, TimePoint deadline) const;
  // Template, tokeniser, Submit(). Memory that cannot be had is a refusal too: overloaded.
  Status Prepare(Pending& pending);
  Status PrepareOrThrow(Pending& pending);              // std::bad_alloc
  static void Refuse(Pending& pending, Status status);  // ends its stream
  // Prepare() in parts: up to the prompt's tokens; then, where a grammar must be compiled, on the
  // compile pool; then what follows.
  Status ReadPrompt(Pending& pending);
  Status Submit(Pending& pending, std::shared_ptr<grammar::TokenMasker> constraint);
  Status CompileAndSubmit(Pending& pending);
  // Runs the next part on a pool, and refuses the request where it fails.
  void Post(PrepPool& pool, std::shared_ptr<Pending> pending, Status (Gateway::*part)(Pending&));
  // Asks the cache of answers; what is to be written, null: nothing.
  std::shared_ptr<api::TokenStream> WhatIsWritten(Pending& pending, std::span<const TokenId> prompt,
                                                  bool begins_inside);
  bool Compiles(const Pending& pending);
  void LogBrokenCall(std::string_view request_id, std::string_view model, std::string_view reason);
  api::ReasoningMode ReasoningOf(const ServedModel& model, const api::Prompt& prompt) const;
  static uint64_t DrawSeed();

  bool AwaitsModels() const;
  // The model of an encoding. Errors: as Find(); invalid_value where none gives what is asked for.
  Result<std::shared_ptr<const ServedModel>> FindEncoder(const api::EncodeRequest& request) const;
  struct PendingEncoding;
  Result<std::shared_ptr<PendingEncoding>> Queue(std::shared_ptr<const ServedModel> model,
                                                 api::EncodeRequest request);
  Status Prepare(PendingEncoding& pending);
  Status PrepareOrThrow(PendingEncoding& pending);  // std::bad_alloc

  const GatewayOptions options_;
  const Clock& clock_;
  LogPace broken_call_lines_;  // before the models: their engines' threads use it
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<const ServedModel>> models_ GUARDED_BY(mutex_);
  std::vector<std::string> expected_ GUARDED_BY(mutex_);  // names of those that are to come
  std::shared_ptr<api::AnswerCache> answers_;             // may be null
  std::shared_ptr<api::EncodingCache> rows_;              // may be null
  Constraints constraints_;
  // Its thread yields to the engine's: a hostile schema takes a fifth of a second of a core.
  PrepPool compile_pool_{1, 1, {.name = "tutti-compile", .nice = 10}};
  PrepPool pool_;  // last: its jobs use everything above
};

}  // namespace tutti::gateway
