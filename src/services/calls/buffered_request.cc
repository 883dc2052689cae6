#include "services/calls/buffered_request.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "api/models.h"
#include "api/validate.h"
#include "base/mutex.h"
#include "protocol/encoding/request.h"
#include "protocol/encoding/response.h"
#include "protocol/error.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "services/calls/generation_call.h"

namespace tutti::calls {
namespace {

template <typename Request>
void Place(CallKind kind, const CallContext& context, Request* request) {
  request->request_id = context.request_id;
  request->caller = context.caller;
  request->route = NameOf(kind);
  request->priority = api::Priority::kBatch;
  request->deadline = std::min(request->deadline, context.deadline);
}

std::string RandomPart(const std::string& request_id) {
  const size_t mark = request_id.find('_');
  return mark == std::string::npos ? request_id : request_id.substr(mark + 1);
}

// The texts that `echo` repeats. Any thread may set them.
class Echo {
 public:
  void Set(Result<EchoTexts> texts) {
    const MutexLock lock(mutex_);
    texts_ = std::move(texts);
  }
  // Returns the texts once, when they are there.
  std::optional<Result<EchoTexts>> Take() {
    const MutexLock lock(mutex_);
    return std::exchange(texts_, std::nullopt);
  }

 private:
  Mutex mutex_;
  std::optional<Result<EchoTexts>> texts_ GUARDED_BY(mutex_);
};

class WholeGeneration final : public BufferedRequest {
 public:
  WholeGeneration(CallKind kind, protocol::GenerationCall call, CallContext context,
                  api::Inference& inference)
      : kind_(kind), call_(std::move(call)), context_(std::move(context)), inference_(inference) {}

  Status Begin(std::shared_ptr<Waker> waker) override {
    GenerationHead made =
        HeadOf(kind_, call_, RandomPart(context_.request_id), inference_, context_.unix_s);
    context_tokens_ = made.context_tokens;
    chat_ = std::holds_alternative<api::ChatPrompt>(call_.requests.front().prompt);
    size_t bytes = 0;
    for (const api::GenerateRequest& request : call_.requests)
      bytes += api::PromptBytes(request.prompt);
    AskForEcho(call_, context_.caller, inference_, [echo = echo_, waker](Result<EchoTexts> texts) {
      echo->Set(std::move(texts));
      if (waker != nullptr) waker->Wake();
    });
    // Copies: the call keeps its shape (prompts, n) for the writer, but not the prompts.
    for (size_t i = 0; i < call_.requests.size(); ++i) {
      api::Prompt prompt = std::exchange(call_.requests[i].prompt, api::Prompt());
      api::GenerateRequest request = call_.requests[i];
      request.prompt = std::move(prompt);
      Place(kind_, context_, &request);
      request.detached = true;
      request.call_bytes = bytes;
      Result<api::Generation> generation = inference_.Generate(std::move(request), waker);
      if (!generation.ok()) {
        generations_.clear();
        return Blame(call_, generation.status(), i, chat_, context_tokens_);
      }
      generations_.push_back(*std::move(generation));
    }
    running_ = generations_.size();
    head_ = std::move(made.head);
    return OkStatus();
  }

  std::optional<Answer> Poll() override {
    if (writer_ == nullptr && !generations_.empty()) {
      std::optional<Result<EchoTexts>> echo = echo_->Take();
      if (!echo.has_value()) return std::nullopt;
      if (!echo->ok()) return Fail(echo->status());
      writer_ = MakeWriter(kind_, call_, std::move(head_), **std::move(echo));
    }
    for (size_t i = 0; i < generations_.size() && running_ > 0; ++i) {
      while (const api::StreamEvent* event = generations_[i].Next()) {
        generations_[i].Consumed(event->text.size());
        const bool token = event->kind == api::StreamEvent::Kind::kToken;
        if (token) ++tokens_;
        if (token || event->kind == api::StreamEvent::Kind::kChoiceEnd)
          texts_[i * static_cast<size_t>(call_.requests[i].n) +
                 static_cast<size_t>(event->choice)] += event->text;
        if (event->kind == api::StreamEvent::Kind::kEnd) {
          if (const Status& status = generations_[i].stream().status(); !status.ok()) {
            return Fail(
                Blame(call_, status, i, chat_, context_tokens_, event->usage.prompt_tokens));
          }
          --running_;
          input_tokens_ += event->usage.prompt_tokens;
          cached_tokens_ += event->usage.cached_tokens;
        }
        writer_->OnEvent(static_cast<int>(i), *event, &body_);
      }
    }
    if (running_ > 0 || generations_.empty()) return std::nullopt;
    writer_->OnDone(&body_);
    generations_.clear();
    return Answer{OkStatus(), std::move(body_), tokens_, input_tokens_, cached_tokens_};
  }

  int64_t progress() const override { return tokens_; }
  void Cancel() override {
    for (api::Generation& generation : generations_) generation.Cancel();
  }

 private:
  Answer Fail(Status status) {
    generations_.clear();  // the other prompts of this call
    if (status.reason() != "cancelled") return {std::move(status), "", tokens_};
    std::string partial;
    protocol::JsonWriter json(&partial);
    json.BeginObject().Key("partial").BeginArray();
    for (const auto& [index, text] : texts_) {
      json.BeginObject().Member("index", static_cast<int64_t>(index)).Member("text", text);
      json.EndObject();
    }
    json.EndArray().EndObject();
    return {std::move(status), std::move(partial), tokens_};
  }

  const CallKind kind_;
  protocol::GenerationCall call_;
  const std::shared_ptr<Echo> echo_ = std::make_shared<Echo>();
  protocol::ResponseHead head_;
  const CallContext context_;
  api::Inference& inference_;
  std::unique_ptr<protocol::ResponseWriter> writer_;  // once there is the echo
  std::vector<api::Generation> generations_;          // one for each prompt; none before and after
  size_t running_ = 0;                                // those that have not ended
  std::string body_;
  std::map<size_t, std::string> texts_;  // by choice, so far
  int context_tokens_ = 0;
  bool chat_ = false;
  int64_t tokens_ = 0, input_tokens_ = 0, cached_tokens_ = 0;
};

class WholeEncoding final : public BufferedRequest {
 public:
  WholeEncoding(CallKind kind, protocol::EncodingCall call, CallContext context,
                api::Inference& inference)
      : kind_(kind), call_(std::move(call)), context_(std::move(context)), inference_(inference) {}

  Status Begin(std::shared_ptr<Waker> waker) override {
    const api::ModelList models = inference_.Models();
    ASSIGN_OR_RETURN(const api::ModelInfo* model, protocol::ChooseModel(call_, models));
    std::string& name = call_.request.model;
    if (name.empty() && model != nullptr) name = model->id;
    head_.model = name;
    if (model != nullptr && model->encoder.has_value()) head_.labels = model->encoder->labels;
    head_.id = (kind_ == CallKind::kRerank ? "rerank-" : "embd-") + RandomPart(context_.request_id);
    head_.created_s = context_.unix_s;
    Place(kind_, context_, &call_.request);
    Result<api::Encoding> encoding =
        inference_.Encode(std::exchange(call_.request, {}), std::move(waker));
    if (!encoding.ok()) return protocol::BlameInput(call_, encoding.status());
    encoding_ = *std::move(encoding);
    return OkStatus();
  }

  std::optional<Answer> Poll() override {
    if (!encoding_ || !encoding_.done()) return std::nullopt;
    const Result<api::EncodeResult> result = encoding_.Take();
    encoding_ = {};
    if (!result.ok()) return Answer{protocol::BlameInput(call_, result.status()), "", 0};
    const int64_t read = std::accumulate(result->tokens.begin(), result->tokens.end(), int64_t{0});
    Result<std::string> body = protocol::EncodingBody(call_, head_, *result);
    if (!body.ok()) return Answer{std::move(body).status(), "", 0};
    return Answer{OkStatus(), *std::move(body), 0, read};
  }

  int64_t progress() const override { return 0; }
  void Cancel() override { encoding_.Cancel(); }

 private:
  const CallKind kind_;
  protocol::EncodingCall call_;
  const CallContext context_;
  api::Inference& inference_;
  protocol::EncodingHead head_;
  api::Encoding encoding_;
};

Result<protocol::EncodingCall> ParseEncoding(CallKind kind, std::string_view body,
                                             const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
  switch (kind) {
    case CallKind::kRerank:
      return protocol::ParseRerank(document.root(), options);
    case CallKind::kScore:
      return protocol::ParseScore(document.root(), options);
    default:
      return protocol::ParseEmbeddings(document.root(), options);
  }
}

}  // namespace

background::Failure FailureOf(const Status& error) {
  using background::Failure;
  if (error.reason() == "draining") return Failure::kStopping;
  const protocol::ErrorRow& row = protocol::FindError(error);
  if (row.retry == protocol::Retry::kNo) return Failure::kPermanent;
  // A worker that has died may have died because of this call.
  const bool failed = row.code == "internal_error" || row.code == "worker_lost";
  return failed ? Failure::kFailed : Failure::kRefused;
}

// Finds the error that the inference API would return later, before anything is accepted.
Status CheckModel(const std::string& name, bool generates, const api::CallerRef& caller,
                  const api::Inference& inference) {
  const api::ModelList models = inference.Models();
  if (name.empty() || models.empty()) return OkStatus();
  const api::ModelList theirs = caller == nullptr ? models : api::ModelsFor(*caller, models);
  if ((generates ? api::FindGenerator(theirs, name) : api::FindModel(theirs, name)) != nullptr)
    return OkStatus();
  // A model that is still loading is accepted, as all are while no model is loaded.
  const bool to_come = api::FindModel(models, name) == nullptr &&
                       inference.Statistics(name).status().reason() == "model_loading";
  return to_come ? OkStatus() : api::ModelNotFound(name);
}

Result<std::unique_ptr<BufferedRequest>> BufferedRequest::Parse(CallKind kind,
                                                                std::string_view body,
                                                                CallContext context,
                                                                api::Inference& inference) {
  if (!Generates(kind)) {
    ASSIGN_OR_RETURN(protocol::EncodingCall call, ParseEncoding(kind, body, context.parse));
    RETURN_IF_ERROR(CheckModel(call.request.model, /*generates=*/false, context.caller, inference));
    return std::unique_ptr<BufferedRequest>(
        std::make_unique<WholeEncoding>(kind, std::move(call), std::move(context), inference));
  }
  ASSIGN_OR_RETURN(protocol::GenerationCall call, ParseGeneration(kind, body, context.parse));
  // /generate streams by default, so the client may not have asked for it.
  if (call.stream && kind != CallKind::kGenerate) {
    return InvalidArgument("unsupported_parameter",
                           "stream: an answer that is fetched later does not stream")
        .WithParam("stream");
  }
  call.stream = false;
  RETURN_IF_ERROR(CheckModel(call.model, /*generates=*/true, context.caller, inference));
  return std::unique_ptr<BufferedRequest>(
      std::make_unique<WholeGeneration>(kind, std::move(call), std::move(context), inference));
}

}  // namespace tutti::calls
