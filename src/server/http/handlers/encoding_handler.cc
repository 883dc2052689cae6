// POST /v1/embeddings, rerank, score, /api/embed and TEI's routes: JSON -> one encoding -> JSON.
//
// The loop's waker signals the end of the encoding; destroying the handler cancels it. Answers that
// take too long to format on an io thread are formatted on a helper, after their memory has been
// counted.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "api/models.h"
#include "api/validate.h"
#include "base/clock.h"
#include "protocol/encoding/request.h"
#include "protocol/encoding/response.h"
#include "protocol/json/json.h"
#include "protocol/ollama/request.h"
#include "server/counting/request_counts.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/models_handler.h"
#include "server/http/handlers/request_fields.h"

namespace tutti::http {
namespace {

// Maximum floats that an io thread formats itself: at 40 ns each, a sixth of a millisecond.
constexpr size_t kInlineFloats = 4096;
constexpr size_t kInlineTextBytes = 16 << 10;

// A body, understood.
struct ParsedEncoding {
  protocol::ErrorForm errors;
  Result<protocol::EncodingCall> call;
};

Result<protocol::EncodingCall> ParseAs(RouteId route, const protocol::Json& body,
                                       const protocol::ParseOptions& options) {
  switch (route) {
    case RouteId::kEmbeddings:
      return protocol::ParseEmbeddings(body, options);
    case RouteId::kScore:
      return protocol::ParseScore(body, options);
    case RouteId::kOllamaEmbed:
      return protocol::ollama::ParseEmbed(protocol::EncodingKind::kOllamaEmbed, body, options);
    case RouteId::kOllamaEmbeddings:
      return protocol::ollama::ParseEmbed(protocol::EncodingKind::kOllamaEmbeddings, body, options);
    case RouteId::kTeiEmbed:
      return protocol::ParseTei(protocol::EncodingKind::kTeiEmbed, body, options);
    case RouteId::kTeiEmbedAll:
      return protocol::ParseTei(protocol::EncodingKind::kTeiEmbedAll, body, options);
    case RouteId::kTeiSparse:
      return protocol::ParseTei(protocol::EncodingKind::kTeiSparse, body, options);
    case RouteId::kTeiPredict:
      return protocol::ParseTei(protocol::EncodingKind::kTeiPredict, body, options);
    case RouteId::kTeiSimilarity:
      return protocol::ParseTei(protocol::EncodingKind::kTeiSimilarity, body, options);
    default:
      return protocol::ParseRerank(body, options);
  }
}

// Thread-safe. `vectors`: there is a model that gives them.
ParsedEncoding Parse(RouteId route, protocol::ErrorForm errors, bool vectors, std::string_view text,
                     const protocol::ParseOptions& options) {
  const Result<protocol::JsonDocument> body = protocol::ParseJson(text);
  if (!body.ok()) return {errors, body.status()};
  if (route == RouteId::kTeiRoot) {
    const Result<protocol::EncodingKind> kind = protocol::KindOfRoot(body->root(), vectors);
    if (!kind.ok()) return {errors, kind.status()};
    return {errors, protocol::ParseTei(*kind, body->root(), options)};
  }
  if (route == RouteId::kRerankOrTei && protocol::HasField(body->root(), "texts") &&
      !protocol::HasField(body->root(), "documents")) {
    return {protocol::ErrorForm::kTei,
            protocol::ParseTei(protocol::EncodingKind::kTeiRerank, body->root(), options)};
  }
  return {errors, ParseAs(route, body->root(), options)};
}

struct EncodedAnswer {
  Status status;
  Connection::Origin origin = Connection::Origin::kInference;  // of a refusal
  HeldAnswer body;
  api::EncodeTimings timings;
  int64_t tokens = 0;
  TimePoint begin;  // of its making
};

// Any thread; the encoding is finished. Frees its result.
EncodedAnswer Compose(api::Encoding& encoding, const protocol::EncodingCall& call,
                      const protocol::EncodingHead& head, MemoryBudget* budget,
                      const Clock& clock) {
  EncodedAnswer answer;
  answer.begin = clock.Now();
  Result<api::EncodeResult> taken = encoding.Take();
  if (!taken.ok()) {
    answer.status = protocol::BlameInput(call, std::move(taken).status());
    return answer;
  }
  answer.origin = Connection::Origin::kServer;
  const api::EncodeResult result = *std::move(taken);
  const size_t floats = result.values.size() * sizeof(float);
  answer.body = HeldAnswer(budget);
  answer.status = answer.body.Reserve(floats + protocol::EstimateEncodingBody(call, result));
  if (!answer.status.ok()) return answer;
  Result<std::string> body = protocol::EncodingBody(call, head, result);
  answer.status = body.ok() ? answer.body.Keep(*std::move(body)) : body.status();
  if (!answer.status.ok()) return answer;
  answer.timings = result.timings;
  answer.tokens = std::accumulate(result.tokens.begin(), result.tokens.end(), int64_t{0});
  return answer;
}

class EncodingHandler final : public Handler {
 public:
  EncodingHandler(RouteId route, Connection& connection)
      : route_(route), connection_(connection), clock_(connection.loop()->clock()) {}

  ~EncodingHandler() override { connection_.WatchStreams(false); }

  void Start() override {
    parse_start_ = clock_.Now();
    const bool vectors =
        route_ == RouteId::kTeiRoot &&
        api::DefaultEncoder(inference().Models(), api::EncodeOutput::kPooled) != nullptr;
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [route = route_, errors = connection_.request_context().decision().errors(), vectors,
         parse = connection_.request_context().parse_options()](std::string_view body) {
          return Parse(route, errors, vectors, body, parse);
        },
        [this](ParsedEncoding parsed) { OnParsed(std::move(parsed)); });
  }

  void Pump() override {
    if (encoding_ && encoding_.done()) MakeAnswer();
  }

 private:
  api::Inference& inference() const { return *connection_.context().deps.inference; }

  void OnParsed(ParsedEncoding parsed) {
    parse_took_ = clock_.Now() - parse_start_;
    if (telemetry::ServerMetrics* serving = connection_.context().deps.serving)
      serving->Stage("parse", parse_took_);
    connection_.request_context().set_error_form(parsed.errors);
    if (!parsed.call.ok()) return connection_.RespondError(parsed.call.status());
    const auto call = std::make_shared<protocol::EncodingCall>(*std::move(parsed.call));
    const Result<TimePoint> deadline = HeaderDeadline(connection_);
    if (!deadline.ok()) return connection_.RespondError(deadline.status());
    connection_.request_context().AdoptId(call->request.request_id);
    call->request.request_id = connection_.request_context().id();
    connection_.request_context().Sign(&call->request);
    call->request.route = connection_.request_context().usage_route();
    call->request.deadline = std::min(call->request.deadline, *deadline);
    Submit(call);
  }

  void Submit(const std::shared_ptr<protocol::EncodingCall>& call) {
    if (Status status = Choose(call.get()); !status.ok()) return connection_.RespondError(status);
    if (call->request.inputs.empty()) return AnswerNothing(call);
    const size_t kept =
        std::accumulate(call->texts.begin(), call->texts.end(), size_t{0},
                        [](size_t sum, const std::string& text) { return sum + text.capacity(); });
    if (!connection_.HoldAnswer(kept))
      return connection_.RespondError(NoRoomForAnswer(kept, connection_.context().memory_budget));
    small_ = FloatsOf(*call) <= kInlineFloats && kept <= kInlineTextBytes;
    call_ = call;
    connection_.WatchStreams(true);
    Result<api::Encoding> encoding =
        inference().Encode(std::exchange(call->request, {}), connection_.loop());
    if (!encoding.ok()) {
      connection_.WatchStreams(false);
      return connection_.RespondError(protocol::BlameInput(*call, encoding.status()),
                                      Connection::Origin::kInference);
    }
    encoding_ = *std::move(encoding);
    Pump();
  }

  // The call only loads or unloads the model (Ollama's API).
  void AnswerNothing(const std::shared_ptr<protocol::EncodingCall>& call) {
    const api::ModelList models =
        api::ModelsFor(*connection_.request_context().caller(), inference().Models());
    const api::ModelInfo* const model = api::FindModel(models, call->request.model);
    if (model == nullptr) return connection_.RespondError(api::ModelNotFound(call->request.model));
    LoadOrUnload(connection_, *model, call->request.keep_alive, [this, call](const Status& status) {
      if (!status.ok()) return connection_.RespondError(status);
      Result<std::string> body = protocol::EncodingBody(*call, head_, api::EncodeResult());
      if (!body.ok()) return connection_.RespondError(body.status());
      connection_.Respond(200, JsonHeaders(call->ignored), *std::move(body));
    });
  }

  // Chooses the model and remembers its facts. The inference API rejects unknown models.
  Status Choose(protocol::EncodingCall* call) {
    const api::ModelList models = inference().Models();
    ASSIGN_OR_RETURN(const api::ModelInfo* model, protocol::ChooseModel(*call, models));
    std::string& name = call->request.model;
    head_.model = call->shown_model.empty() ? name : call->shown_model;
    if (model == nullptr) return OkStatus();
    if (name.empty()) head_.model = name = model->id;
    if (model->encoder.has_value()) {
      head_.labels = model->encoder->labels;
      width_ = call->request.output == api::EncodeOutput::kScores
                   ? model->encoder->labels.size()
                   : static_cast<size_t>(call->request.output == api::EncodeOutput::kTokens
                                             ? model->encoder->row_width()
                                             : model->encoder->width);
    }
    rows_per_input_ = call->request.output == api::EncodeOutput::kTokens
                          ? static_cast<size_t>(model->max_model_len)
                          : 1;
    return OkStatus();
  }

  // At most.
  size_t FloatsOf(const protocol::EncodingCall& call) const {
    return call.request.inputs.size() * rows_per_input_ * width_;
  }

  void MakeAnswer() {
    connection_.WatchStreams(false);
    const bool rerank = call_->kind == protocol::EncodingKind::kRerank;
    if (rerank || call_->kind == protocol::EncodingKind::kScore ||
        call_->kind == protocol::EncodingKind::kEmbeddings) {
      head_.id = (rerank ? "rerank-" : "embd-") + connection_.loop()->RandomId(24);
      head_.created_s = UnixSeconds();
    }
    const auto work = [encoding = std::make_shared<api::Encoding>(std::move(encoding_)),
                       call = call_, head = head_, budget = &connection_.context().memory_budget,
                       &clock = clock_] { return Compose(*encoding, *call, head, budget, clock); };
    WithAnswer(connection_, small_, work,
               [this](EncodedAnswer answer) { Finish(std::move(answer)); });
  }

  void Finish(EncodedAnswer answer) {
    if (!answer.status.ok()) return connection_.RespondError(answer.status, answer.origin);
    const TimePoint done = clock_.Now();
    counting::CountStages(answer.timings, connection_.context().deps.serving);
    HeaderList headers = JsonHeaders(call_->ignored);
    if (call_->tei()) AddTeiHeaders(answer, done, &headers);
    if (connection_.request().Find("x-tutti-timings") != nullptr)
      headers.emplace_back("Server-Timing", ServerTiming(answer, done));
    std::move(answer.body).Send(connection_, std::move(headers));
  }

  // Whole milliseconds, as TEI has them.
  void AddTeiHeaders(const EncodedAnswer& answer, TimePoint done, HeaderList* headers) const {
    const auto ms = [](Duration took) { return std::to_string(WholeMillis(took)); };
    const Duration total = done - connection_.request_context().start();
    headers->emplace_back("x-compute-type", "cpu");
    headers->emplace_back("x-compute-time", ms(total));
    headers->emplace_back("x-compute-characters", std::to_string(call_->characters));
    headers->emplace_back("x-compute-tokens", std::to_string(answer.tokens));
    headers->emplace_back("x-total-time", ms(total));
    headers->emplace_back("x-tokenization-time", ms(answer.timings.prepare));
    headers->emplace_back("x-queue-time", ms(answer.timings.queue));
    headers->emplace_back("x-inference-time", ms(answer.timings.inference));
  }

  // Stage times in milliseconds, from the first byte of the request to the finished answer. The
  // handover is the time between the other stages: thread wake-ups.
  std::string ServerTiming(const EncodedAnswer& answer, TimePoint done) const {
    const api::EncodeTimings& timings = answer.timings;
    const Duration read = parse_start_ - connection_.request_context().start();
    const Duration serialise = done - answer.begin;
    const Duration total = done - connection_.request_context().start();
    const Duration handover = total - read - parse_took_ - timings.prepare - timings.queue -
                              timings.inference - serialise;
    return fmt::format(
        "read;dur={:.3f}, parse;dur={:.3f}, tokenize;dur={:.3f}, queue;dur={:.3f}, "
        "encode;dur={:.3f}, handover;dur={:.3f}, serialise;dur={:.3f}, total;dur={:.3f}",
        ToMillis(read), ToMillis(parse_took_), ToMillis(timings.prepare), ToMillis(timings.queue),
        ToMillis(timings.inference), ToMillis(handover), ToMillis(serialise), ToMillis(total));
  }

  const RouteId route_;
  Connection& connection_;
  const Clock& clock_;
  TimePoint parse_start_;
  Duration parse_took_{0};
  std::shared_ptr<const protocol::EncodingCall>
      call_;  // without its request, which the inference API has
  protocol::EncodingHead head_;
  size_t width_ = 0, rows_per_input_ = 1;  // of the result; 0 = not known
  bool small_ = false;                     // the answer is made here
  api::Encoding encoding_;
};

}  // namespace

std::unique_ptr<Handler> MakeEncodingHandler(RouteId route, Connection& connection) {
  return std::make_unique<EncodingHandler>(route, connection);
}

}  // namespace tutti::http
