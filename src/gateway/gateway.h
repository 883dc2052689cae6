// Gateway: api::Inference over the models of this process. A request passes model lookup,
// validation, admission to the engine's queue, template, tokenizer, and then goes to the engine.
//
// Owned by app::LocalInference. Any thread; no call waits for inference. Small prompts are prepared
// on the calling thread, as long as fewer than `prep` requests are in preparation. Large prompts
// and those that need a lookup in a shared cache are prepared on the prep pool. The place in the
// queue is taken before the preparation.
//
// A request for a listed model that is not loaded waits (waiting_requests.h) while the ModelSource
// loads the model, and is then prepared on the prep pool. Response caches do not see it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/answer_cache.h"
#include "api/inference.h"
#include "api/live_state.h"
#include "api/request_trace.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "gateway/classify.h"
#include "gateway/constraints.h"
#include "gateway/prep_pool.h"
#include "gateway/served_model.h"
#include "gateway/waiting_requests.h"

namespace tutti::gateway {

struct GatewayOptions {
  int prep = 12;                      // most requests prepared at once (prep_pool.h)
  int prep_threads = 2;               // of the prep pool
  size_t inline_prompt_bytes = 4096;  // larger prompts go to the prep pool
  // Treatment of reasoning in answers to chats. Absent: separated if the model's template shows the
  // reasoning tags, else kept.
  std::optional<api::ReasoningMode> reasoning = {};
  Logger* log = nullptr;  // outlives the gateway and its engines; may be null
};

// The error of a name that is taken.
Status AdapterExists(const std::string& name);
// Loads models that requests name. Any thread; does not block.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  // A request names the listed model, which is not served. OK: the request waits, and the source
  // calls AddModel() or FailWaiting() for the model. Otherwise the request ends with the error.
  virtual Status Want(const std::string& model) = 0;
};

class Gateway final : public api::Inference {
 public:
  // `clock` outlives the gateway.
  Gateway(const GatewayOptions& options, const Clock& clock);
  ~Gateway() override;  // ends the requests that wait for models

  // Announces models that are being loaded: until a model is added, requests for it get
  // model_loading.
  void Expect(std::vector<std::string> names);
  // Begins to serve a model. Requests without a model name go to api::DefaultGenerator(), encode
  // requests to api::EncoderFor().
  void AddModel(std::shared_ptr<const ServedModel> model);
  // Begins to serve a model with an adapter, and no longer serves one of the same name that
  // `replaces` says. Its base must be served. Prefixes that were pinned under the adapter before a
  // restart are pinned again. Errors: adapter_exists for a name that is taken;
  // model_not_found without the base.
  Status AddAdapter(std::shared_ptr<const ServedModel> model, bool replaces);
  // No longer serves the adapter of that name. Requests that have begun keep it. Errors:
  // model_not_found.
  Status RemoveAdapter(const std::string& name);

  // --- models that are loaded and unloaded at run time ---

  // To be called before the first request; `source` outlives the gateway's requests.
  void UseSource(ModelSource* source, const WaitLimits& limits);
  // Replaces the list of models that `source` can load, in the order of Models(). Entries of loaded
  // models set their status. Adapters of models that are not loaded are entries with a parent.
  void List(std::vector<api::ModelInfo> listed);
  // New requests no longer find the model and its adapters; those that have found one keep their
  // reference.
  void RemoveModel(const ServedModel& model);
  // Ends the requests that wait for the model or for its adapters.
  void FailWaiting(const std::string& model, const Status& why);
  // Ends the waiting requests that were cancelled or expired. To be called periodically.
  void EndWaiting();
  size_t waiting() const;
  // Generations use this cache, except those that are stepped. To be called before the first
  // request.
  void UseAnswers(std::shared_ptr<api::AnswerCache> answers) { answers_ = std::move(answers); }
  // Requests without a trace get one from here. To be called before the first request.
  void UseTraces(std::shared_ptr<api::RequestTraces> traces) { traces_ = std::move(traces); }
  // Encodings use this cache. To be called before the first request.
  void UseRows(std::shared_ptr<api::EncodingCache> rows) { rows_ = std::move(rows); }

  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<Waker> waker) override;
  // Generate() for stepwise use: a token is only sampled when `control` permits it. A prompt of any
  // size is prepared on the calling thread.
  struct Stepwise {
    api::Generation generation;
    std::shared_ptr<engine::RequestControl> control;
  };
  Result<Stepwise> GenerateStepwise(api::GenerateRequest request, std::shared_ptr<Waker> waker);
  Result<api::Encoding> Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) override;
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override;
  Result<std::string> Detokenize(const api::DetokenizeRequest& request) override;
  Result<std::vector<api::PinnedPrefix>> Pins(const std::string& tenant) const override;
  Status Unpin(const std::string& tenant, const std::string& id) override;
  void TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) override;
  void DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) override;
  // The loaded models that are not adapters of another one.
  std::vector<std::shared_ptr<const ServedModel>> ServedBases() const;
  // The requests that wait for their models, for operators.
  void ListWaiting(api::LiveState* out) const;
  // The loaded models, then the listed ones that are not loaded.
  api::ModelList Models() const override;
  api::LoadSnapshot Load() const override;  // of all models together
  Result<api::ModelStatistics> Statistics(const std::string& model) const override;
  // Served adapters that sequences of the engines use now, by name.
  struct AdaptersInUse {
    std::vector<std::string> running, waiting;
  };
  AdaptersInUse UsedAdapters() const;
  // Requests in preparation, or waiting for it.
  int preparing() const { return pool_.load() + compile_pool_.load(); }

  // The model of that name; api::DefaultGenerator() for "". Errors: model_loading, also for a
  // listed model that is not loaded; model_not_found.
  Result<std::shared_ptr<const ServedModel>> Find(const std::string& name) const;

 private:
  // Result of a look-up: the model; or the name of a listed one that must be loaded first; or the
  // error.
  struct Lookup {
    std::shared_ptr<const ServedModel> model = nullptr;
    std::string listed = {};
    Status why = {};
  };
  Lookup Look(const std::string& name) const;
  Lookup LookLocked(const std::string& name) const REQUIRES(mutex_);
  api::ModelList ModelsLocked() const REQUIRES(mutex_);
  // The adapter that was replaced; null if there was none.
  Result<std::shared_ptr<const ServedModel>> PutAdapter(
      const std::shared_ptr<const ServedModel>& model, bool replaces);
  // Lets a request for a listed model wait, unless the model was loaded meanwhile: then `resume` is
  // called here. Errors: queue_full, those of ModelSource::Want().
  Status WaitFor(WaitingRequests::Entry entry);
  // Marks the model as used now.
  void NoteUse(const ServedModel& model, std::optional<Duration> keep_alive) const;
  // The model, for a caller that may block for `patience`.
  Result<std::shared_ptr<const ServedModel>> FindWithin(const std::string& name, Duration patience);
  Result<api::Generation> Defer(std::string model, api::GenerateRequest request,
                                std::shared_ptr<Waker> waker);
  Result<api::Encoding> Defer(std::string model, api::EncodeRequest request,
                              std::shared_ptr<Waker> waker);
  // Continues a generation whose model has been loaded. On an error the stream has not ended.
  Status Resume(std::shared_ptr<const ServedModel> model, api::GenerateRequest request,
                std::shared_ptr<api::TokenStream> stream, WaitControl& control);
  template <typename Request, typename Answer>
  void AskLater(Request request, Done<Answer> done,
                Result<Answer> (*with)(const ServedModel&, const Request&));
  struct Pending;  // one request between acceptance and submission
  Result<Stepwise> Accept(api::GenerateRequest request, std::shared_ptr<Waker> waker,
                          bool stepwise);
  // Checks the request and takes its place in the queue.
  Result<std::shared_ptr<Pending>> Queue(std::shared_ptr<const ServedModel> model,
                                         api::GenerateRequest request);
  Status StillWanted(const engine::AdmissionPermit& permit, TimePoint deadline) const;
  // Template, tokenizer, Submit(). Out of memory is reported as overloaded.
  Status Prepare(Pending& pending);
  static void Refuse(Pending& pending, Status status);  // ends its stream
  // The parts of Prepare(). ReadPrompt() makes the prompt's tokens. CompileAndSubmit() runs on the
  // compile pool if a grammar must be compiled. Submit() hands the request to the engine.
  Status ReadPrompt(Pending& pending);
  static Status ReadContinuation(Pending& pending);
  Status CompileAndSubmit(Pending& pending);
  Status Submit(Pending& pending, std::shared_ptr<grammar::TokenMasker> constraint);
  // Runs the next part on a pool and rejects the request if it fails.
  void Post(PrepPool& pool, std::shared_ptr<Pending> pending, Status (Gateway::*part)(Pending&));
  // Looks up the response cache. Returns the stream for the engine to write; null: nothing is to be
  // computed.
  std::shared_ptr<api::TokenStream> WhatIsWritten(Pending& pending, std::span<const TokenId> prompt,
                                                  bool begins_inside);
  void LogBrokenCall(std::string_view request_id, std::string_view model, std::string_view reason);
  api::ReasoningMode ReasoningOf(const ServedModel& model, const api::Prompt& prompt) const;
  // Servers that trace their own stages have begun a trace already.
  template <typename Request>
  void BeginTrace(Request* request) const {
    if (traces_ == nullptr || request->trace != nullptr || request->request_id.empty()) return;
    request->trace = traces_->Begin(
        {.id = request->request_id,
         .route = request->route,
         .tenant = request->tenant,
         .caller = request->caller == nullptr ? std::string() : request->caller->credential,
         .begun_unix_ns = UnixNanos(),
         .begun_at = clock_.Now(),
         .parent = request->trace_context});
  }
  static uint64_t DrawSeed();

  bool AwaitsModels() const;
  // The model for an encode request. Errors: as Find(); invalid_value if no model has the output.
  Lookup LookEncoder(const api::EncodeRequest& request) const;
  struct PendingEncoding;
  Result<std::shared_ptr<PendingEncoding>> Queue(std::shared_ptr<const ServedModel> model,
                                                 api::EncodeRequest request);
  Status Prepare(PendingEncoding& pending);
  // Answers a request that a classifier answers (classify.h) through `stream`. Returns what cancels
  // it. Errors: the stream has not ended.
  Result<std::shared_ptr<api::Cancellable>> Classify(
      const std::shared_ptr<const ServedModel>& model, api::GenerateRequest request,
      std::shared_ptr<api::TokenStream> stream);
  // Encode() with a model that was looked up.
  Result<api::Encoding> EncodeWith(std::shared_ptr<const ServedModel> model,
                                   api::EncodeRequest request, std::shared_ptr<Waker> waker);
  static api::EncodingState::Finisher FinisherOf(const PendingEncoding& pending);
  // Prepares the encoding on the pool, and ends it if that fails.
  void Post(std::shared_ptr<PendingEncoding> pending);

  const GatewayOptions options_;
  const Clock& clock_;
  LogPace broken_call_lines_;  // before the models: their engines' threads use it
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<const ServedModel>> models_ GUARDED_BY(mutex_);
  std::vector<std::string> expected_ GUARDED_BY(mutex_);  // names of models that are being loaded
  std::vector<api::ModelInfo> listed_ GUARDED_BY(mutex_);
  // The answer of Models(). Absent after a change of models_, expected_ or listed_.
  struct Snapshot {
    api::ModelList models;
    // The loaded models that are unloaded when unused, with the time of it that `models` gives.
    std::vector<std::pair<const ServedModel*, int64_t>> expiries;
  };
  Snapshot MakeSnapshot() const REQUIRES(mutex_);
  mutable std::optional<Snapshot> snapshot_ GUARDED_BY(mutex_);
  WaitingRequests waiting_ GUARDED_BY(mutex_);
  ModelSource* source_ = nullptr;               // may be null
  std::shared_ptr<api::AnswerCache> answers_;   // may be null
  std::shared_ptr<api::EncodingCache> rows_;    // may be null
  std::shared_ptr<api::RequestTraces> traces_;  // may be null
  Constraints constraints_;
  RunningScores running_scores_;
  // Low priority, because compiling a hostile schema takes a fifth of a second of a core.
  PrepPool compile_pool_{1, 1, {.name = "tutti-compile", .nice = 10}};
  PrepPool pool_;  // last: its jobs use everything above
};

}  // namespace tutti::gateway
