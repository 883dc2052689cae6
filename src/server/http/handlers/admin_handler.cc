// Changes of the running server by its operator: POST /admin/reload.
#include <string>
#include <utility>
#include <vector>

#include "protocol/json/json_writer.h"
#include "server/http/connection/connection.h"
#include "server/http/handler.h"
#include "server/http/handlers/body_work.h"

namespace tutti::http {
namespace {

std::string ReloadBody(const ReloadReport& report) {
  protocol::JsonWriter json;
  json.BeginObject().Member("object", "config.reload");
  const auto list = [&](const char* name, const std::vector<std::string>& keys) {
    json.Key(name).BeginArray();
    for (const std::string& key : keys) json.String(key);
    json.EndArray();
  };
  list("applied", report.applied);
  list("needs_restart", report.needs_restart);
  json.EndObject();
  return json.Take();
}

class AdminHandler final : public Handler {
 public:
  explicit AdminHandler(Connection& connection) : connection_(connection) {}

  void Start() override {
    const auto& reload = connection_.context().deps.reload;
    if (reload == nullptr) {
      return connection_.RespondError(Status(StatusCode::kUnimplemented, "not_implemented",
                                             "this server cannot reload its configuration"));
    }
    OnHelper(
        connection_, connection_.context().json_helper, [reload] { return reload(); },
        [this](const Result<ReloadReport>& report) {
          if (!report.ok()) return connection_.RespondError(report.status());
          connection_.Respond(200,
                              {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                              ReloadBody(*report));
        });
  }

 private:
  Connection& connection_;
};

}  // namespace

std::unique_ptr<Handler> MakeAdminHandler(RouteId /*route*/, Connection& connection) {
  return std::make_unique<AdminHandler>(connection);
}

}  // namespace tutti::http
