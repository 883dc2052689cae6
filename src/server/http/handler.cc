#include "server/http/handler.h"

#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "server/http/connection.h"
#include "wire/field_error.h"
#include "wire/json_writer.h"
#include "wire/load.h"
#include "wire/models.h"

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
      case RouteId::kVersion: {
        std::string body;
        wire::JsonWriter(&body)
            .BeginObject()
            .Member("version", connection_.context().options.version)
            .EndObject();
        return Json(std::move(body));
      }
      case RouteId::kLoad:
        return Json(LoadBody(deps.inference->Load()));
      case RouteId::kMetrics:
        return connection_.Respond(
            200, {{"Content-Type", std::string(telemetry::MetricsRegistry::kContentType)}},
            deps.metrics->Expose());
      case RouteId::kInfo:
        return Info();
      case RouteId::kTokenizerInfo:
        return TokenizerInfo();
      case RouteId::kModels:
        return Json(wire::ModelListBody(Models()));
      case RouteId::kModel: {
        const std::vector<api::ModelInfo> models = Models();
        const std::string& id = connection_.decision().argument;
        if (const api::ModelInfo* model = api::FindGenerator(models, id))
          return Json(wire::ModelBody(*model, id));
        return connection_.RespondError(api::ModelNotFound(id));
      }
      default:
        return connection_.RespondError(Internal("a route without an answer"));
    }
  }

 private:
  // Others than were given to the caller are not there for it.
  std::vector<api::ModelInfo> Models() const {
    return api::ModelsFor(*connection_.caller(), connection_.context().deps.inference->Models());
  }
  void Info() {
    const std::vector<api::ModelInfo> models = Models();
    if (models.empty())
      return connection_.RespondError(Unavailable("model_loading", "the model is being loaded"));
    const HttpOptions& options = connection_.context().options;
    Json(wire::InfoBody(wire::MainEncoder(models),
                        {options.max_connections, options.prep_threads, options.version}));
  }
  // Describes the tokenizer of the default model.
  void TokenizerInfo() {
    const std::vector<api::ModelInfo> models = Models();
    const api::ModelInfo* const model = api::DefaultGenerator(models);
    if (model == nullptr)
      return connection_.RespondError(Unavailable("model_loading", "the model is being loaded"));
    if (model->tokenizer == nullptr) {
      return connection_.RespondError(Status(StatusCode::kUnimplemented, "not_implemented",
                                             "nothing is known of this model's tokenizer"));
    }
    Json(wire::TokenizerInfoBody(*model));
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
    std::string body;
    wire::JsonWriter json(&body);
    wire::WriteLoad(load, &json);
    return body;
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
    return wire::BadValue(field, std::string(field) +
                                     " is a job's: it needs Prefer: respond-async, on a route that "
                                     "takes jobs, of a server with a store");
  }
  return OkStatus();
}

}  // namespace

std::unique_ptr<Handler> MakeHandler(const Route& route, Connection& connection) {
  if (WantsJob(route, connection)) return MakeRespondAsyncHandler(route.id, connection);
  if (Status status = CheckNoJobs(connection.request()); !status.ok())
    return std::make_unique<RefusalHandler>(std::move(status), connection);
  if (TakesIdempotencyKey(route, connection)) return MakeRepeatHandler(route, connection);
  return MakeRouteHandler(route, connection);
}

std::unique_ptr<Handler> MakeRouteHandler(const Route& route, Connection& connection) {
  const auto keeps = [&] {
    const HttpServer::Dependencies& deps = connection.context().deps;
    return deps.responses != nullptr && deps.sessions != nullptr;
  };
  const auto keeps_files = [&] { return connection.context().deps.files != nullptr; };
  const auto keeps_batches = [&] {
    return keeps_files() && connection.context().deps.batches != nullptr;
  };
  const auto nothing_kept = [&]() -> std::unique_ptr<Handler> {
    return std::make_unique<RefusalHandler>(
        Status(StatusCode::kUnimplemented, "not_implemented",
               "this server keeps no responses, conversations, jobs and files"),
        connection);
  };
  switch (route.id) {
    case RouteId::kChat:
    case RouteId::kText:
    case RouteId::kGenerate:
    case RouteId::kInfill:
    case RouteId::kMessages:
      return MakeGenerationHandler(route.id, connection);
    case RouteId::kResponses:
      return keeps() ? MakeResponsesHandler(connection) : nothing_kept();
    case RouteId::kResponsesSocket:
      return keeps() ? MakeSocketHandler(route.id, connection) : nothing_kept();
    case RouteId::kChatSocket:
      return keeps() && connection.context().deps.chat != nullptr
                 ? MakeSocketHandler(route.id, connection)
                 : nothing_kept();
    case RouteId::kResponse:
    case RouteId::kResponseCancel:
    case RouteId::kResponseDelete:
    case RouteId::kResponseInput:
      return keeps() ? MakeStoredResponseHandler(route.id, connection) : nothing_kept();
    case RouteId::kJobs:
    case RouteId::kJobsPause:
    case RouteId::kJobsResume:
    case RouteId::kJob:
    case RouteId::kJobCancel:
    case RouteId::kJobReplay:
    case RouteId::kJobEvents:
      return connection.context().deps.jobs != nullptr ? MakeJobsHandler(route.id, connection)
                                                       : nothing_kept();
    case RouteId::kFileUpload:
      return keeps_files() ? MakeUploadHandler(connection) : nothing_kept();
    case RouteId::kFileContent:
      return keeps_files() ? MakeFileContentHandler(connection) : nothing_kept();
    case RouteId::kFiles:
    case RouteId::kFile:
    case RouteId::kFileDelete:
      return keeps_files() ? MakeFilesHandler(route.id, connection) : nothing_kept();
    case RouteId::kBatches:
    case RouteId::kBatchCreate:
    case RouteId::kBatch:
    case RouteId::kBatchCancel:
      return keeps_batches() ? MakeBatchesHandler(route.id, connection) : nothing_kept();
    case RouteId::kMessageBatches:
    case RouteId::kMessageBatchCreate:
    case RouteId::kMessageBatch:
    case RouteId::kMessageBatchDelete:
    case RouteId::kMessageBatchCancel:
      return keeps_batches() ? MakeMessageBatchesHandler(route.id, connection) : nothing_kept();
    case RouteId::kMessageBatchResults:
      return keeps_batches() ? MakeMessageBatchResultsHandler(connection) : nothing_kept();
    case RouteId::kConversationCreate:
    case RouteId::kConversation:
    case RouteId::kConversationUpdate:
    case RouteId::kConversationDelete:
    case RouteId::kConversationFork:
    case RouteId::kItems:
    case RouteId::kItemsCreate:
    case RouteId::kItem:
    case RouteId::kItemDelete:
      return keeps() ? MakeConversationsHandler(route.id, connection) : nothing_kept();
    case RouteId::kInputTokens:
    case RouteId::kTokenize:
    case RouteId::kDetokenize:
    case RouteId::kApplyTemplate:
    case RouteId::kDecode:
    case RouteId::kCountTokens:
      return MakeTokenizerHandler(route.id, connection);
    case RouteId::kEmbeddings:
    case RouteId::kRerank:
    case RouteId::kRerankOrTei:
    case RouteId::kScore:
    case RouteId::kTeiEmbed:
    case RouteId::kTeiEmbedAll:
    case RouteId::kTeiPredict:
    case RouteId::kTeiSimilarity:
    case RouteId::kTeiRoot:
      return MakeEncodingHandler(route.id, connection);
    case RouteId::kKserveServer:
    case RouteId::kKserveLive:
    case RouteId::kKserveReady:
    case RouteId::kKserveModel:
    case RouteId::kKserveModelReady:
    case RouteId::kKserveConfig:
    case RouteId::kKserveStatistics:
    case RouteId::kKserveIndex:
    case RouteId::kKserveLoad:
    case RouteId::kKserveUnload:
    case RouteId::kKserveUnregister:
      return MakeKserveHandler(route.id, connection);
    case RouteId::kKserveInfer:
    case RouteId::kKserveGenerate:
      return MakeKserveInferHandler(route.id, connection);
    case RouteId::kKserveGenerateStream:
      return MakeKserveStreamHandler(connection);
    default:
      return std::make_unique<ImmediateHandler>(route.id, connection);
  }
}

void AddIgnored(const std::vector<std::string>& names, HeaderList* headers) {
  if (names.empty()) return;
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  headers->emplace_back("x-tutti-ignored", std::move(joined));
}

Status NoRoomForAnswer(size_t bytes, const MemoryBudget& budget) {
  if (static_cast<int64_t>(bytes) > budget.limit()) {
    return ResourceExhausted(
        "request_too_large",
        "the answer would take about " + std::to_string(bytes) + " bytes; ask for less at once");
  }
  return Unavailable("overloaded", "too many long answers wait for their readers");
}

HeaderList JsonHeaders(const std::vector<std::string>& ignored) {
  HeaderList headers = {{"Content-Type", "application/json"}};
  AddIgnored(ignored, &headers);
  return headers;
}

}  // namespace tutti::http
