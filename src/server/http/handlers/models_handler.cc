// Loads and unloads models: POST /v1/models/load and /v1/models/unload, which answer when that has
// happened, and llama.cpp's /models/load and /models/unload, which answer at once; GET /models.

#include "server/http/handlers/models_handler.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/model_control.h"
#include "api/models.h"
#include "base/mutex.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/models.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/request_fields.h"
#include "services/auth/authenticator.h"

namespace tutti::http {
namespace {

bool MayOperate(Connection& connection) {
  const auto& principal = connection.request_context().decision().principal;
  return principal != nullptr && auth::MayUse(*principal, auth::rules::kOperate).ok();
}

bool AsksForReload(std::string_view target) {
  const auto parameters = QueryOf(target);
  return parameters.ok() && std::find(parameters->begin(), parameters->end(),
                                      protocol::QueryParameter("reload", "1")) != parameters->end();
}

Result<protocol::ModelCall> ParseNamed(std::string_view body,
                                       const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
  return protocol::ParseModelCall(document.root(), options);
}

std::string SuccessBody() {
  return protocol::JsonWriter().BeginObject().Member("success", true).EndObject().Take();
}

class ModelsHandler final : public Handler {
 public:
  ModelsHandler(RouteId route, Connection& connection) : route_(route), connection_(connection) {}

  void Start() override {
    if (route_ == RouteId::kModelsReload) return List();
    if (connection_.context().deps.control == nullptr) {
      return connection_.RespondError(
          Status(StatusCode::kUnimplemented, "not_implemented",
                 "models are loaded by the workers of this server, when these start"));
    }
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [options = connection_.request_context().parse_options()](std::string_view body) {
          return ParseNamed(body, options);
        },
        [this](Result<protocol::ModelCall> call) { OnParsed(std::move(call)); });
  }

 private:
  api::ModelControl& control() const { return *connection_.context().deps.control; }

  void List() {
    api::ModelControl* const control = connection_.context().deps.control;
    // Reading the folder is work, which other callers than operators may not ask for at will.
    if (control != nullptr && AsksForReload(connection_.request().target) &&
        MayOperate(connection_))
      control->Rescan();
    Respond(protocol::ModelListBody(api::ModelsFor(
        *connection_.request_context().caller(), connection_.context().deps.inference->Models())));
  }

  void OnParsed(Result<protocol::ModelCall> call) {
    if (!call.ok()) return connection_.RespondError(call.status());
    call_ = *std::move(call);
    switch (route_) {
      case RouteId::kModelLoad:
        return control().Load(call_.model, WhenDone());
      case RouteId::kModelUnload:
        return control().Unload(call_.model, WhenDone());
      case RouteId::kModelLoadLater:
        return AnswerAtOnce(&api::ModelControl::Load);
      default:
        return AnswerAtOnce(&api::ModelControl::Unload);
    }
  }

  api::ModelControl::Done WhenDone() {
    return connection_.Later([this](const Status& status) {
      if (!status.ok()) return connection_.RespondError(status);
      const api::ModelList models = connection_.context().deps.inference->Models();
      const api::ModelInfo* const model = api::FindModel(models, call_.model);
      Respond(model == nullptr ? SuccessBody() : protocol::ModelBody(*model, call_.model));
    });
  }

  // Errors that come later are in the model's status.
  void AnswerAtOnce(void (api::ModelControl::*change)(const std::string&,
                                                      api::ModelControl::Done)) {
    using Early = Synchronized<std::optional<Status>>;
    const auto early = std::make_shared<Early>();
    (control().*change)(call_.model, [early](Status status) {
      early->Update([&](std::optional<Status>& held) { held = std::move(status); });
    });
    const std::optional<Status> known = early->Copy();
    if (known.has_value() && !known->ok()) return connection_.RespondError(*known);
    Respond(SuccessBody());
  }

  void Respond(std::string body) {
    connection_.Respond(200, JsonHeaders(call_.ignored), std::move(body));
  }

  const RouteId route_;
  Connection& connection_;
  protocol::ModelCall call_;
};

}  // namespace

std::unique_ptr<Handler> MakeModelsHandler(RouteId route, Connection& connection) {
  return std::make_unique<ModelsHandler>(route, connection);
}

namespace {

// The models that have to be loaded for `model`: itself, the base of an adapter, the targets of an
// alias.
std::vector<std::string> ModelsBehind(const api::ModelInfo& model) {
  if (!model.targets.empty()) return model.targets;
  return {model.parent.empty() ? model.id : model.parent};
}

// Loads the models one after the other. Calls `then` with the first error, or at the end.
void LoadEach(Connection& connection, std::vector<std::string> models,
              std::optional<Duration> keep_alive, std::function<void(Status)> then) {
  api::ModelControl* const control = connection.context().deps.control;
  const std::string model = std::move(models.back());
  models.pop_back();
  control->Load(
      model, connection.Later([&connection, control, model, keep_alive, models = std::move(models),
                               then = std::move(then)](const Status& status) {
        if (status.ok() && keep_alive.has_value()) control->KeepAlive(model, *keep_alive);
        if (!status.ok() || models.empty()) return then(status);
        LoadEach(connection, models, keep_alive, then);
      }));
}

}  // namespace

void LoadOrUnload(Connection& connection, const api::ModelInfo& model,
                  std::optional<Duration> keep_alive, std::function<void(Status)> then) {
  api::ModelControl* const control = connection.context().deps.control;
  if (control == nullptr) return then(OkStatus());
  if (const auto& count = connection.context().deps.count_load; count != nullptr) {
    if (Status counted = count(connection.request_context().caller(), model.id); !counted.ok())
      return then(std::move(counted));
  }
  if (keep_alive != Duration::zero())
    return LoadEach(connection, ModelsBehind(model), keep_alive, std::move(then));
  // Others may use the base of an adapter and the targets of an alias.
  const bool alone = model.parent.empty() && model.targets.empty();
  // A client that may not operate the server ends a model's stay only if it is not pinned.
  if (alone && MayOperate(connection)) {
    control->Unload(model.id, [](const Status&) {});
  } else {
    for (const std::string& behind : ModelsBehind(model))
      control->KeepAlive(behind, Duration::zero());
  }
  then(OkStatus());
}

}  // namespace tutti::http
