// GET /v1/me: who the server takes the caller for, what is left of its limits, and what this server
// offers. A client uses it to know what it may show.
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/model_library.h"
#include "api/models.h"
#include "protocol/caller.h"
#include "server/http/connection/connection.h"
#include "server/http/handler.h"
#include "services/auth/authenticator.h"

namespace tutti::http {
namespace {

// By PrincipalKind.
constexpr std::array<std::string_view, 4> kKinds = {"open", "key", "user", "token"};

// `open`: the server has no keys, and none can be made over HTTP.
std::vector<std::pair<std::string_view, bool>> ServicesOf(const HttpServer::Dependencies& deps,
                                                          bool open) {
  return {{"conversations", Offers(deps, Needs::kDialogs)},
          {"chat_socket", Offers(deps, Needs::kChat)},
          {"jobs", Offers(deps, Needs::kJobs)},
          {"files", Offers(deps, Needs::kFiles)},
          {"batches", Offers(deps, Needs::kBatches)},
          {"adapters", Offers(deps, Needs::kAdapters)},
          {"library", Offers(deps, Needs::kLibrary)},
          {"pull", deps.library != nullptr && deps.library->fetches()},
          {"model_control", deps.control != nullptr},
          {"keys", Offers(deps, Needs::kOperate) && !open}};
}

std::vector<std::string_view> RoutesOf(auth::RouteClasses routes) {
  std::vector<std::string_view> names;
  for (const auth::RouteClass each : auth::kAllRouteClasses) {
    if (each != auth::RouteClass::kPublic && routes.Has(each))
      names.push_back(auth::RouteClassName(each));
  }
  return names;
}

class CallerHandler final : public Handler {
 public:
  explicit CallerHandler(Connection& connection) : connection_(connection) {}

  void Start() override {
    const HttpServer::Dependencies& deps = connection_.context().deps;
    const HttpOptions& options = connection_.context().options;
    const auth::PrincipalRef who = connection_.request_context().decision().principal;
    const api::Caller& caller = *connection_.request_context().caller();
    protocol::CallerView view{
        .keys = who->kind != auth::PrincipalKind::kOpen,
        .kind = kKinds[static_cast<size_t>(who->kind)],
        .id = who->id,
        .name = who->name,
        .tenant = who->grant.tenant,
        .routes = RoutesOf(who->grant.scopes.routes),
        .model_scope = who->grant.scopes.models,
        .models = {},
        .admin = auth::MayUse(*who, auth::rules::kOperate).ok(),
        .expires_s = who->expires_s,
        .version = options.version,
        .services = ServicesOf(deps, who->kind == auth::PrincipalKind::kOpen)};
    for (const api::ModelInfo& model : api::ModelsFor(caller, deps.inference->Models()))
      view.models.push_back(model.id);
    if (deps.limits_left != nullptr) view.limits = deps.limits_left(caller);
    view.body_bytes = static_cast<int64_t>(options.limits.framing.body_bytes);
    view.upload_bytes = static_cast<int64_t>(options.limits.upload_bytes);
    view.max_timeout_s =
        std::chrono::duration_cast<std::chrono::seconds>(options.limits.deadline_cap).count();
    connection_.Respond(200, {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                        protocol::CallerJson(view));
  }

 private:
  Connection& connection_;
};

}  // namespace

std::unique_ptr<Handler> MakeCallerHandler(RouteId /*route*/, Connection& connection) {
  return std::make_unique<CallerHandler>(connection);
}

}  // namespace tutti::http
