// The routes of KServe v2.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/error.h"
#include "protocol/kserve/json/request.h"
#include "protocol/kserve/json/response.h"
#include "protocol/kserve/model.h"
#include "protocol/kserve/repository.h"
#include "server/counting/request_counts.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/event_stream.h"
#include "server/http/handlers/kserve_run.h"

namespace tutti::http {
namespace {

// --- questions about the server and its models, and those of its repository ---

Result<bool> ReadReadyOnly(const KserveHead& head, std::string_view body) {
  BudgetShare share(head.budget);
  std::string inflated;
  ASSIGN_OR_RETURN(const std::string_view text,
                   BodyText(head.coding, body, head.max_bytes, &share, &inflated));
  return kserve::ReadReadyOnly(text);
}

class KserveHandler final : public Handler {
 public:
  KserveHandler(RouteId route, Connection& connection)
      : route_(route),
        connection_(connection),
        repository_(*connection.context().deps.repository) {}

  void Start() override {
    const Decision& decision = connection_.request_context().decision();
    switch (route_) {
      case RouteId::kKserveServer:
        return Json(kserve::ServerMetadataBody(repository_.metadata()));
      case RouteId::kKserveLive:
        return Truth("live", repository_.live().ok());
      case RouteId::kKserveReady:
        return Truth("ready", repository_.ready().ok());
      case RouteId::kKserveModelReady:
        return Truth("ready",
                     repository_.ModelReady(decision.argument, decision.version, caller()).ok());
      case RouteId::kKserveModel:
        return OfModel(&kserve::ModelMetadataBody);
      case RouteId::kKserveConfig:
        return OfModel(&kserve::ModelConfigBody);
      case RouteId::kKserveStatistics: {
        const auto all = repository_.Statistics(decision.argument, decision.version, caller());
        if (!all.ok()) return connection_.RespondError(all.status());
        return Json(kserve::StatisticsBody(*all));
      }
      case RouteId::kKserveIndex:
        return Index();
      case RouteId::kKserveLoad:
        return repository_.Load(decision.argument, Later());
      case RouteId::kKserveUnload:
        return repository_.Unload(decision.argument, Later());
      case RouteId::kKserveUnregister:  // clients that use no shared memory forget it first
        return Done(OkStatus());
      default:
        return connection_.RespondError(Internal("a route without an answer"));
    }
  }

 private:
  const api::CallerRef& caller() const { return connection_.request_context().caller(); }

  void Json(std::string body, int status = 200) {
    connection_.Respond(status,
                        {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                        std::move(body));
  }

  // The status is Triton's answer, the body that of the Open Inference Protocol.
  void Truth(const char* what, bool holds) {
    const bool of_model = route_ == RouteId::kKserveModelReady;
    Json(kserve::TruthBody(of_model ? connection_.request_context().decision().argument : "", what,
                           holds),
         holds ? 200 : 400);
  }

  void OfModel(std::string (*body)(const kserve::ModelConfig&)) {
    const Decision& decision = connection_.request_context().decision();
    const auto model = repository_.Find(decision.argument, decision.version, caller());
    if (!model.ok()) return connection_.RespondError(model.status());
    Json(body((*model)->config()));
  }

  void Index() {
    const Result<KserveHead> head = KserveHead::Of(route_, connection_);
    if (!head.ok()) return connection_.RespondError(head.status());
    WithBody(
        connection_, head->inline_bytes(), connection_.context().json_helper,
        [head = *head](std::string_view body) { return ReadReadyOnly(head, body); },
        [this](const Result<bool>& ready_only) {
          if (!ready_only.ok()) return connection_.RespondError(ready_only.status());
          Json(kserve::IndexBody(repository_.Index(*ready_only, caller())));
        });
  }

  api::ModelControl::Done Later() {
    return connection_.Later([this](const Status& status) { Done(status); });
  }

  void Done(const Status& status) {
    if (!status.ok()) return connection_.RespondError(status);
    connection_.Respond(200, {}, "");
  }

  const RouteId route_;
  Connection& connection_;
  const kserve::Repository& repository_;
};

// --- .../infer and .../generate: one request, one answer ---
//
// The execution is asked whenever the loop's streams grow, or its time has come; destroying the
// handler destroys it, which cancels. A long answer is made, and compressed, on a helper, after
// its memory has been counted.

constexpr size_t kInlineTensorBytes = 16 << 10;  // of outputs that an io thread writes itself

struct Answer {
  Status status;
  std::optional<size_t> json_bytes;  // of the body, before it was compressed
  HeldAnswer body;
};

size_t RawBytes(const kserve::InferResponse& response) {
  size_t bytes = 0;
  for (const kserve::Tensor& output : response.outputs) bytes += output.data.size();
  return bytes;
}

Result<kserve::ResponseBody> Write(RouteId route, const KserveRun& run,
                                   const kserve::InferResponse& response) {
  if (route == RouteId::kKserveInfer) return kserve::WriteInfer(run.model, run.asked, response);
  kserve::ResponseBody body;
  ASSIGN_OR_RETURN(body.text, kserve::GenerateBody(run.asked.request.id, run.model, response));
  return body;
}

// Any thread. The response is freed here.
Answer Compose(RouteId route, const KserveRun& run, kserve::InferResponse response,
               std::optional<protocol::Coding> coding, MemoryBudget* budget) {
  Answer answer;
  answer.body = HeldAnswer(budget);
  const size_t estimate = RawBytes(response) + kserve::EstimateInfer(run.asked, response);
  answer.status = answer.body.Reserve(estimate);
  if (!answer.status.ok()) return answer;
  Result<kserve::ResponseBody> body = Write(route, run, response);
  if (!body.ok()) {
    answer.status = std::move(body).status();
    return answer;
  }
  response = {};
  answer.json_bytes = body->json_bytes;
  if (coding.has_value()) {
    Result<std::string> small = protocol::Deflate(*coding, body->text);
    if (!small.ok()) {
      answer.status = std::move(small).status();
      return answer;
    }
    body->text = *std::move(small);
  }
  answer.status = answer.body.Keep(std::move(body->text));
  return answer;
}

class KserveInferHandler final : public Handler {
 public:
  KserveInferHandler(RouteId route, Connection& connection)
      : route_(route), connection_(connection), clock_(connection.loop()->clock()) {}

  ~KserveInferHandler() override { connection_.WatchStreams(false); }

  void Start() override {
    parse_start_ = clock_.Now();
    const Result<KserveHead> head = KserveHead::Of(route_, connection_);
    if (!head.ok()) return connection_.RespondError(head.status());
    WithBody(
        connection_, head->inline_bytes(), connection_.context().json_helper,
        [head = *head](std::string_view body) { return KserveRun::Begin(head, body); },
        [this](KserveRun run) { OnBegun(std::move(run)); });
  }

  void Pump() override {
    if (run_.execution == nullptr) return;  // still being read, or the answer is being made
    Result<std::optional<kserve::InferResponse>> response =
        only_.Take(*run_.execution, (route_ == RouteId::kKserveInfer ? "infer" : "generate") +
                                        std::string(" is for one response, and model '") +
                                        run_.model + "' gives several; use generate_stream");
    if (!response.ok()) {
      run_.execution.reset();
      return connection_.RespondError(response.status(), Connection::Origin::kInference);
    }
    if (response->has_value()) MakeAnswer(std::move(**response));
  }

  TimePoint Due() const override {
    return run_.execution == nullptr ? TimePoint::max() : run_.execution->due();
  }
  void OnTimer(TimePoint) override { Pump(); }

 private:
  void OnBegun(KserveRun run) {
    connection_.request_context().Stage("parse", parse_start_);
    connection_.request_context().CountAs(run.op);
    run_ = std::move(run);
    ignored_ = run_.asked.ignored.names();
    if (run_.execution == nullptr) return connection_.RespondError(run_.failure, run_.origin);
    connection_.WatchStreams(true);
    Pump();
  }

  void MakeAnswer(kserve::InferResponse response) {
    connection_.WatchStreams(false);
    run_.execution.reset();
    counting::CountStages(run_.op, response.spent, connection_.context().deps.serving);
    const std::string* accepted = connection_.request().Find("accept-encoding");
    if (accepted != nullptr) coding_ = AcceptedCoding(*accepted);
    const bool small = RawBytes(response) <= kInlineTensorBytes;
    const auto work = [route = route_, run = std::make_shared<KserveRun>(std::move(run_)),
                       response = std::make_shared<kserve::InferResponse>(std::move(response)),
                       coding = coding_, budget = &connection_.context().memory_budget] {
      return Compose(route, *run, std::move(*response), coding, budget);
    };
    WithAnswer(connection_, small, work, [this](Answer answer) { Finish(std::move(answer)); });
  }

  void Finish(Answer answer) {
    if (!answer.status.ok()) return connection_.RespondError(answer.status);
    HeaderList headers;
    headers.emplace_back("Content-Type", answer.json_bytes.has_value() ? "application/octet-stream"
                                                                       : "application/json");
    if (answer.json_bytes.has_value()) {
      headers.emplace_back("Inference-Header-Content-Length", std::to_string(*answer.json_bytes));
    }
    if (coding_.has_value()) {
      headers.emplace_back("Content-Encoding", NameOf(*coding_));
      headers.emplace_back("Vary", "Accept-Encoding");
    }
    AddIgnored(ignored_, &headers);
    std::move(answer.body).Send(connection_, std::move(headers));
  }

  const RouteId route_;
  Connection& connection_;
  const Clock& clock_;
  TimePoint parse_start_;
  KserveRun run_;
  kserve::OneResponse only_;
  std::vector<std::string> ignored_;
  std::optional<protocol::Coding> coding_;  // of the answer
};

// --- .../generate_stream: one request, its responses as server-sent events ---
//
// A failure before the stream has begun (event_stream.h) is an ordinary HTTP error; later ones are
// an event, `data: {"error": text}`, the last.

class KserveStreamHandler final : public Handler {
 public:
  explicit KserveStreamHandler(Connection& connection)
      : connection_(connection), clock_(connection.loop()->clock()), events_(connection) {}

  ~KserveStreamHandler() override { connection_.WatchStreams(false); }

  void Start() override {
    parse_start_ = clock_.Now();
    const Result<KserveHead> head = KserveHead::Of(RouteId::kKserveGenerateStream, connection_);
    if (!head.ok()) return connection_.RespondError(head.status());
    WithBody(
        connection_, head->inline_bytes(), connection_.context().json_helper,
        [head = *head](std::string_view body) { return KserveRun::Begin(head, body); },
        [this](KserveRun run) { OnBegun(std::move(run)); });
  }

  void Pump() override {
    std::string frames;
    while (run_.execution != nullptr && events_.HasRoom(frames.size())) {
      Result<std::optional<kserve::InferResponse>> next = run_.execution->Next();
      if (!next.ok()) return Fail(next.status(), Connection::Origin::kInference, &frames);
      if (!next->has_value()) break;
      const kserve::InferResponse& response = **next;
      if (!response.empty || run_.empty_final) {
        const Result<std::string> object =
            kserve::GenerateBody(run_.asked.request.id, run_.model, response);
        if (!object.ok()) return Fail(object.status(), Connection::Origin::kServer, &frames);
        AppendEvent(*object, &frames);
      }
      if (!response.final) continue;
      run_.execution.reset();
      connection_.WatchStreams(false);
      events_.Show(frames);
      return events_.End();
    }
    events_.Show(frames);
  }

  TimePoint Due() const override {
    if (run_.execution == nullptr) return TimePoint::max();
    const TimePoint due = events_.HasRoom(0) ? run_.execution->due() : TimePoint::max();
    return std::min(due, events_.KeepAliveDue());
  }

  void OnTimer(TimePoint now) override {
    if (run_.execution == nullptr) return;
    events_.KeepAlive(now);
    Pump();
  }

 private:
  void OnBegun(KserveRun run) {
    connection_.request_context().Stage("parse", parse_start_);
    run_ = std::move(run);
    if (run_.execution == nullptr) return connection_.RespondError(run_.failure, run_.origin);
    events_.Open(connection_.context().options.keepalive.value_or(std::chrono::seconds(15)),
                 run_.asked.ignored.names());
    connection_.WatchStreams(true);
    Pump();
  }

  static void AppendEvent(std::string_view object, std::string* frames) {
    *frames += "data: ";
    *frames += object;
    *frames += "\n\n";
  }

  void Fail(const Status& status, Connection::Origin origin, std::string* frames) {
    run_.execution.reset();
    connection_.WatchStreams(false);
    if (!events_.begun() && frames->empty()) return connection_.RespondError(status, origin);
    AppendEvent(protocol::ErrorBody(
                    protocol::ViewError(status, connection_.request_context().error_options())),
                frames);
    events_.Show(*frames);
    events_.End();
  }

  Connection& connection_;
  const Clock& clock_;
  TimePoint parse_start_;
  KserveRun run_;
  EventStream events_;
};

}  // namespace

std::unique_ptr<Handler> MakeKserveHandler(RouteId route, Connection& connection) {
  return std::make_unique<KserveHandler>(route, connection);
}

std::unique_ptr<Handler> MakeKserveInferHandler(RouteId route, Connection& connection) {
  return std::make_unique<KserveInferHandler>(route, connection);
}

std::unique_ptr<Handler> MakeKserveStreamHandler(RouteId /*route*/, Connection& connection) {
  return std::make_unique<KserveStreamHandler>(connection);
}

}  // namespace tutti::http
