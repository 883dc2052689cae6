// The routes of KServe v2 that ask about the server and its models, and those of its repository.
#include <memory>
#include <string>
#include <utility>

#include "protocol/kserve/json/request.h"
#include "protocol/kserve/json/response.h"
#include "protocol/kserve/repository.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/kserve_run.h"

namespace tutti::http {
namespace {

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
        return Truth("ready", repository_.ModelReady(decision.argument, decision.version).ok());
      case RouteId::kKserveModel:
        return OfModel(&kserve::ModelMetadataBody);
      case RouteId::kKserveConfig:
        return OfModel(&kserve::ModelConfigBody);
      case RouteId::kKserveStatistics: {
        const auto all = repository_.Statistics(decision.argument, decision.version);
        if (!all.ok()) return connection_.RespondError(all.status());
        return Json(kserve::StatisticsBody(*all));
      }
      case RouteId::kKserveIndex:
        return Index();
      case RouteId::kKserveLoad:
        return Done(repository_.Load());
      case RouteId::kKserveUnload:
        return Done(repository_.Unload());
      case RouteId::kKserveUnregister:  // clients that use no shared memory forget it first
        return Done(OkStatus());
      default:
        return connection_.RespondError(Internal("a route without an answer"));
    }
  }

 private:
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
    const auto model = repository_.Find(decision.argument, decision.version);
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
          Json(kserve::IndexBody(repository_.Index(*ready_only)));
        });
  }

  void Done(const Status& status) {
    if (!status.ok()) return connection_.RespondError(status);
    connection_.Respond(200, {}, "");
  }

  const RouteId route_;
  Connection& connection_;
  const kserve::Repository& repository_;
};

}  // namespace

std::unique_ptr<Handler> MakeKserveHandler(RouteId route, Connection& connection) {
  return std::make_unique<KserveHandler>(route, connection);
}

}  // namespace tutti::http
