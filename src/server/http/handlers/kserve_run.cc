#include "server/http/handlers/kserve_run.h"

#include <algorithm>
#include <utility>

#include "server/counting/request_counts.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/request_fields.h"

namespace tutti::http {
namespace {

Result<kserve::RequestBody> Read(const KserveHead& head, const kserve::ModelConfig& config,
                                 std::string_view body) {
  BudgetShare share(head.budget);
  std::string inflated;
  ASSIGN_OR_RETURN(const std::string_view text,
                   BodyText(head.coding, body, head.max_bytes, &share, &inflated));
  if (head.route != RouteId::kKserveInfer) {
    const bool stream = head.route == RouteId::kKserveGenerateStream;
    return kserve::ReadGenerate(config, text, stream, head.read);
  }
  if (!head.json_bytes.has_value()) return kserve::ReadInfer(text, std::nullopt, head.read);
  ASSIGN_OR_RETURN(const size_t json_bytes,
                   kserve::ReadHeaderLength(*head.json_bytes, text.size()));
  if (json_bytes == 0) return kserve::ReadRawInput(config, std::string(text));
  return kserve::ReadInfer(text, json_bytes, head.read);
}

}  // namespace

Result<KserveHead> KserveHead::Of(RouteId route, Connection& connection) {
  constexpr const char* kJsonBytes = "inference-header-content-length";
  const HttpRequest& request = connection.request();
  ServerContext& context = connection.context();
  KserveHead head;
  head.route = route;
  head.model = connection.request_context().decision().argument;
  head.version = connection.request_context().decision().version;
  if (const std::string* field = request.Find("content-encoding"))
    head.coding = ParseCoding(*field).value_or(ContentCoding());  // the router has checked it
  if (request.Count(kJsonBytes) > 1)
    return InvalidArgument("invalid_value", "more than one Inference-Header-Content-Length");
  if (const std::string* field = request.Find(kJsonBytes)) head.json_bytes = *field;
  head.max_bytes = context.options.limits.framing.body_bytes;
  head.read = {connection.request_context().start(), context.options.strict};
  ASSIGN_OR_RETURN(head.deadline, HeaderDeadline(connection));
  head.request_id = connection.request_context().id();
  connection.request_context().Sign(&head);
  head.usage_route = connection.request_context().usage_route();
  head.repository = context.deps.repository;
  head.budget = &context.memory_budget;
  head.waker = connection.loop();
  return head;
}

size_t KserveHead::inline_bytes() const {
  return coding.coding.has_value() ? kInlineJsonBytes / kMaxInflateRatio : kInlineJsonBytes;
}

KserveRun KserveRun::Begin(const KserveHead& head, std::string_view body) {
  KserveRun run;
  const Result<std::shared_ptr<kserve::Model>> model =
      head.repository->Find(head.model, head.version, head.caller);
  if (!model.ok()) {
    run.failure = model.status();
    return run;
  }
  run.model = (*model)->config().name;
  run.op = counting::OpOf((*model)->config().task);
  Result<kserve::RequestBody> read = Read(head, (*model)->config(), body);
  if (!read.ok()) {
    run.failure = std::move(read).status();
    return run;
  }
  run.asked = *std::move(read);
  kserve::InferRequest request = std::exchange(run.asked.request, {});
  run.asked.request.id = request.id;
  run.empty_final = request.empty_final_response;
  request.model = head.model;
  request.version = head.version;
  request.deadline = std::min(request.deadline, head.deadline);
  request.request_id = head.request_id;
  request.trace_context = head.trace_context;
  request.caller = head.caller;
  request.rate_limits = head.rate_limits;
  request.route = head.usage_route;
  request.cache = head.cache;
  request.cache_report = head.cache_report;
  request.strict = head.read.strict;
  Result<std::unique_ptr<kserve::Execution>> started =
      head.repository->Infer(std::move(request), head.waker);
  if (started.ok()) {
    run.execution = *std::move(started);
    for (const std::string& name : run.execution->unread()) run.asked.ignored.Add(name);
  } else {
    run.failure = std::move(started).status();
    run.origin = Connection::Origin::kInference;
  }
  return run;
}

}  // namespace tutti::http
