#include "server/http/handler.h"

#include <utility>
#include <vector>

#include "api/models.h"
#include "api/validate.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/load.h"
#include "protocol/ollama/models.h"
#include "protocol/ollama/request.h"
#include "protocol/openai/models.h"
#include "server/http/connection/connection.h"
#include "server/http/openapi.h"

namespace tutti::http {
namespace {

// Routes answered at once, from snapshots: health, models, versions, metrics.
class ImmediateHandler final : public Handler {
 public:
  ImmediateHandler(RouteId route, Connection& connection)
      : route_(route), connection_(connection) {}

  void Start() override {
    const HttpServer::Dependencies& deps = connection_.context().deps;
    switch (route_) {
      case RouteId::kLive:
        return Health(deps.health->live());
      case RouteId::kHealth:
        return Health(deps.health->live().ok() ? deps.health->ready() : deps.health->live());
      case RouteId::kReady:
        return Health(deps.health->ready());
      case RouteId::kStarted:
        return Health(deps.health->started());
      case RouteId::kVersion:
        return Json(protocol::JsonWriter()
                        .BeginObject()
                        .Member("version", connection_.context().options.version)
                        .EndObject()
                        .Take());
      case RouteId::kLoad:
        return Json(LoadBody(deps.inference->Load()));
      case RouteId::kOpenApi:
        return Json(OpenApiDocument(connection_.context().options.version));
      case RouteId::kMetrics:
        return connection_.Respond(
            200, {{"Content-Type", std::string(telemetry::MetricsRegistry::kContentType)}},
            deps.metrics->Expose());
      case RouteId::kInfo:
        return Info();
      case RouteId::kTokenizerInfo:
        return TokenizerInfo();
      case RouteId::kOllamaRoot:
        return connection_.Respond(200, {{"Content-Type", "text/plain; charset=utf-8"}},
                                   "Ollama is running");
      case RouteId::kOllamaVersion:
        return Json(protocol::ollama::VersionBody(connection_.context().options.version));
      case RouteId::kOllamaTags:
        return Json(protocol::ollama::TagsBody(Models()));
      case RouteId::kOllamaRunning:
        return Json(protocol::ollama::RunningBody(Models()));
      case RouteId::kOllamaShow:
        return OllamaShow();
      case RouteId::kModels:
        return Json(protocol::ModelListBody(Models()));
      case RouteId::kModel: {
        const api::ModelList models = Models();
        const std::string& id = connection_.request_context().decision().argument;
        if (const api::ModelInfo* model = api::FindGenerator(models, id))
          return Json(protocol::ModelBody(*model, id));
        return connection_.RespondError(api::ModelNotFound(id));
      }
      default:
        return connection_.RespondError(Internal("a route without an answer"));
    }
  }

 private:
  // Others than were given to the caller are not there for it.
  api::ModelList Models() const {
    return api::ModelsFor(*connection_.request_context().caller(),
                          connection_.context().deps.inference->Models());
  }
  void Info() {
    const api::ModelList models = Models();
    if (models.empty())
      return connection_.RespondError(Unavailable("model_loading", "the model is being loaded"));
    const HttpOptions& options = connection_.context().options;
    Json(protocol::InfoBody(protocol::MainEncoder(models),
                            {options.max_connections, options.prep_threads, options.version}));
  }
  void OllamaShow() {
    const Connection::Body body = connection_.TakeBody();
    const Result<protocol::JsonDocument> document = protocol::ParseJson(body.text);
    if (!document.ok()) return connection_.RespondError(document.status());
    const Result<protocol::ollama::ShowCall> call = protocol::ollama::ParseShow(
        document->root(), connection_.request_context().parse_options());
    if (!call.ok()) return connection_.RespondError(call.status());
    const api::ModelList models = Models();
    const api::ModelInfo* const model = api::FindGenerator(models, call->model);
    if (model == nullptr) return connection_.RespondError(api::ModelNotFound(call->model));
    connection_.Respond(200, JsonHeaders(call->ignored), protocol::ollama::ShowBody(*model));
  }
  // Describes the tokenizer of the default model.
  void TokenizerInfo() {
    const api::ModelList models = Models();
    const api::ModelInfo* const model = api::DefaultGenerator(models);
    if (model == nullptr)
      return connection_.RespondError(Unavailable("model_loading", "the model is being loaded"));
    if (model->tokenizer == nullptr) {
      return connection_.RespondError(Status(StatusCode::kUnimplemented, "not_implemented",
                                             "nothing is known of this model's tokenizer"));
    }
    Json(protocol::TokenizerInfoBody(*model));
  }
  void Health(const Status& status) {
    if (!status.ok()) return connection_.RespondError(status);
    Json("{\"status\":\"ok\"}");
  }
  void Json(std::string body) {
    connection_.Respond(200, {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                        std::move(body));
  }
  static std::string LoadBody(const api::LoadSnapshot& load) {
    protocol::JsonWriter json;
    protocol::WriteLoad(load, &json);
    return json.Take();
  }

  const RouteId route_;
  Connection& connection_;
};

class RefusalHandler final : public Handler {
 public:
  RefusalHandler(Status why, Connection& connection)
      : why_(std::move(why)), connection_(connection) {}
  void Start() override { connection_.RespondError(why_); }

 private:
  const Status why_;
  Connection& connection_;
};

// Rejects header fields of jobs on other requests: otherwise the request would start at once, and
// its webhook would never be called.
Status CheckNoJobs(const HttpRequest& request) {
  for (const char* field : {"x-tutti-run-at", "x-tutti-deadline", "x-tutti-webhook"}) {
    if (request.Find(field) == nullptr) continue;
    return BadValue(field, std::string(field) +
                               " is a job's: it needs Prefer: respond-async, on a route that "
                               "takes jobs, of a server with a store");
  }
  return OkStatus();
}

const char* WhatIsMissing(Needs needs) {
  switch (needs) {
    case Needs::kAdapters:
      return "adapters cannot be loaded at run time; start with --lora-folder";
    case Needs::kLibrary:
      return "the models of this server are those of its workers; change them there";
    case Needs::kOperate:
      return "this server keeps no keys, users, jobs and batches";
    default:
      return "this server keeps no responses, conversations, jobs and files";
  }
}

}  // namespace

bool Offers(const HttpServer::Dependencies& deps, Needs needs) {
  const bool dialogs = deps.responses != nullptr && deps.sessions != nullptr;
  switch (needs) {
    case Needs::kNothing:
      return true;
    case Needs::kDialogs:
      return dialogs;
    case Needs::kChat:
      return dialogs && deps.chat != nullptr;
    case Needs::kJobs:
      return deps.jobs != nullptr;
    case Needs::kFiles:
      return deps.files != nullptr;
    case Needs::kBatches:
      return deps.files != nullptr && deps.batches != nullptr;
    case Needs::kAdapters:
      return deps.adapters != nullptr;
    case Needs::kLibrary:
      return deps.library != nullptr;
    case Needs::kOperate:
      return deps.operate != nullptr;
  }
  return false;
}

std::unique_ptr<Handler> MakeHandler(const Route& route, Connection& connection) {
  if (WantsJob(route, connection)) return MakeRespondAsyncHandler(route.id, connection);
  if (Status status = CheckNoJobs(connection.request()); !status.ok())
    return std::make_unique<RefusalHandler>(std::move(status), connection);
  if (TakesIdempotencyKey(route, connection)) return MakeIdempotencyHandler(route, connection);
  return MakeRouteHandler(route, connection);
}

std::unique_ptr<Handler> MakeRouteHandler(const Route& route, Connection& connection) {
  if (Offers(connection.context().deps, route.handler.needs))
    return route.handler.make(route.id, connection);
  return std::make_unique<RefusalHandler>(
      Status(StatusCode::kUnimplemented, "not_implemented", WhatIsMissing(route.handler.needs)),
      connection);
}

std::unique_ptr<Handler> MakeImmediateHandler(RouteId route, Connection& connection) {
  return std::make_unique<ImmediateHandler>(route, connection);
}

}  // namespace tutti::http
