// POST .../infer and .../generate of KServe v2: one request, one answer.
//
// The execution is asked whenever the loop's streams grow, or its time has come; destroying the
// handler destroys it, which cancels. A long answer is made, and compressed, on a helper, after
// its memory has been counted.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/kserve/json/generate.h"
#include "protocol/kserve/json/response.h"
#include "protocol/kserve/one_response.h"
#include "server/counting/request_counts.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/held_answer.h"
#include "server/http/handlers/kserve_run.h"

namespace tutti::http {
namespace {

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
    if (telemetry::ServerMetrics* serving = connection_.context().deps.serving)
      serving->Stage("parse", clock_.Now() - parse_start_);
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

}  // namespace

std::unique_ptr<Handler> MakeKserveInferHandler(RouteId route, Connection& connection) {
  return std::make_unique<KserveInferHandler>(route, connection);
}

}  // namespace tutti::http
