// The routes below /admin about keys, users, usage, jobs and batches: control requests of an
// operator (protocol/control.h), as `tutti keys`, `tutti users` and `tutti jobs` send them.
//
// A route stands for an operation. The body of a POST, or the query, has its members, and the path
// the one that names the object. The answer is that of the operation.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/handler.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/request_fields.h"
#include "services/auth/principal.h"

namespace tutti::http {
namespace {

// Values of one body; the operations have limits of their own.
constexpr size_t kMaxBodyValues = 1024;

struct Operation {
  RouteId route;
  std::string_view name;
  std::string_view path_member = {};                // what the path names; empty: nothing
  std::array<std::string_view, 4> parameters = {};  // names in the query
};

constexpr auto kOperations = std::to_array<Operation>({
    {.route = RouteId::kAdminKeys, .name = "keys.list"},
    {.route = RouteId::kAdminKeyCreate, .name = "keys.create"},
    {.route = RouteId::kAdminKeyUpdate, .name = "keys.update", .path_member = "key"},
    {.route = RouteId::kAdminKeyRevoke, .name = "keys.revoke", .path_member = "key"},
    {.route = RouteId::kAdminKeyRotate, .name = "keys.rotate", .path_member = "name"},
    {.route = RouteId::kAdminUsers, .name = "users.list"},
    {.route = RouteId::kAdminUserCreate, .name = "users.create"},
    {.route = RouteId::kAdminUserDelete, .name = "users.delete", .path_member = "name"},
    {.route = RouteId::kAdminUserPassword, .name = "users.password", .path_member = "name"},
    {.route = RouteId::kAdminUserEnable, .name = "users.enable", .path_member = "name"},
    {.route = RouteId::kAdminUserDisable, .name = "users.disable", .path_member = "name"},
    {.route = RouteId::kAdminJobs,
     .name = "jobs.list",
     .parameters = {"status", "tenant", "limit", "after"}},
    {.route = RouteId::kAdminJob, .name = "jobs.show", .path_member = "id"},
    {.route = RouteId::kAdminJobCancel, .name = "jobs.cancel", .path_member = "id"},
    {.route = RouteId::kAdminJobReplay, .name = "jobs.replay", .path_member = "id"},
    {.route = RouteId::kAdminJobsPause, .name = "jobs.pause"},
    {.route = RouteId::kAdminJobsResume, .name = "jobs.resume"},
    {.route = RouteId::kAdminUsage, .name = "usage.sums", .parameters = {"by", "from_ms", "to_ms"}},
    {.route = RouteId::kAdminBatches,
     .name = "batches.list",
     .parameters = {"tenant", "limit", "after"}},
    {.route = RouteId::kAdminBatch, .name = "batches.show", .path_member = "id"},
    {.route = RouteId::kAdminBatchCancel, .name = "batches.cancel", .path_member = "id"},
});

const Operation* OperationOf(RouteId route) {
  const auto found = std::find_if(kOperations.begin(), kOperations.end(),
                                  [route](const Operation& each) { return each.route == route; });
  return found == kOperations.end() ? nullptr : &*found;
}

Status Unknown(std::string_view name) {
  const std::string shown = protocol::Excerpt(name);
  return InvalidArgument("unknown_parameter", "unknown parameter " + shown).WithParam(shown);
}

void BeginRequest(const Operation& operation, const std::string& object,
                  protocol::JsonWriter* json) {
  json->BeginObject().Member("op", operation.name);
  if (!operation.path_member.empty()) json->Member(operation.path_member, object);
}

// The control request of a body; an empty one counts as {}.
Result<std::string> RequestOfBody(const Operation& operation, const std::string& object,
                                  std::string_view body) {
  ASSIGN_OR_RETURN(
      const protocol::JsonDocument document,
      protocol::ParseJson(body.empty() ? std::string_view("{}") : body, kMaxBodyValues));
  if (!document.root().is_object())
    return InvalidArgument("invalid_value", "the body must be a JSON object");
  protocol::JsonWriter json;
  BeginRequest(operation, object, &json);
  for (const auto& [key, value] : document.root().get_object()) {
    const std::string_view name = key;
    // The path says these two.
    if (name == "op" || name == operation.path_member) return Unknown(name);
    json.Key(name).Raw(protocol::PrintJson(value));
  }
  json.EndObject();
  return json.Take();
}

Result<std::string> RequestOfQuery(const Operation& operation, const std::string& object,
                                   const std::vector<protocol::QueryParameter>& parameters) {
  protocol::JsonWriter json;
  BeginRequest(operation, object, &json);
  for (const auto& [name, value] : parameters) {
    const auto& known = operation.parameters;
    if (name.empty() || std::find(known.begin(), known.end(), name) == known.end())
      return Unknown(name);
    if (name != "limit" && !name.ends_with("_ms")) {
      json.Member(name, value);
      continue;
    }
    const std::optional<int64_t> number = protocol::ReadWholeNumber(value);
    if (!number.has_value()) return BadValue(name, name + " must be a whole number");
    json.Member(name, *number);
  }
  json.EndObject();
  return json.Take();
}

class OperatorHandler final : public Handler {
 public:
  OperatorHandler(const Operation& operation, Connection& connection)
      : operation_(operation), connection_(connection) {}

  void Start() override {
    if (const Status status = CheckNotOpen(); !status.ok()) return connection_.RespondError(status);
    const std::string& object = connection_.request_context().decision().argument;
    if (connection_.request().method != "POST") {
      const auto parameters = QueryOf(connection_.request().target);
      if (!parameters.ok()) return connection_.RespondError(parameters.status());
      return Ask(RequestOfQuery(operation_, object, *parameters));
    }
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [&operation = operation_, object](std::string_view body) {
          return RequestOfBody(operation, object, body);
        },
        [this](Result<std::string> request) { Ask(std::move(request)); });
  }

 private:
  // On an open server every process of this machine is an operator, whatever its user. It must not
  // be able to make a key, which would close the server to its owner.
  Status CheckNotOpen() const {
    const bool accounts =
        operation_.name.starts_with("keys.") || operation_.name.starts_with("users.");
    const auth::PrincipalRef& who = connection_.request_context().decision().principal;
    if (!accounts || who->kind != auth::PrincipalKind::kOpen) return OkStatus();
    return Status(StatusCode::kPermissionDenied, "insufficient_scope",
                  "this server is open; make the first key with `tutti keys create NAME --routes "
                  "admin`");
  }

  void Ask(Result<std::string> request) {
    if (!request.ok()) return connection_.RespondError(request.status());
    connection_.context().deps.operate(
        *std::move(request), connection_.request_context().caller()->credential,
        connection_.Later([this](Result<std::string> answer) { Show(std::move(answer)); }));
  }

  void Show(Result<std::string> answer) {
    if (!answer.ok()) return connection_.RespondError(answer.status());
    // The answer to a change is short, and a new secret cannot be asked for again.
    const std::string& method = connection_.request().method;
    const bool reads = method == "GET" || method == "HEAD";
    if (reads && !connection_.HoldAnswer(answer->size())) {
      return connection_.RespondError(
          Unavailable("overloaded", "too many long answers are being sent; retry later"));
    }
    connection_.Respond(200, {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                        *std::move(answer));
  }

  const Operation& operation_;
  Connection& connection_;
};

}  // namespace

std::unique_ptr<Handler> MakeOperatorHandler(RouteId route, Connection& connection) {
  const Operation* const operation = OperationOf(route);
  CHECK(operation != nullptr);  // kRoutes and kOperations have the same routes
  return std::make_unique<OperatorHandler>(*operation, connection);
}

}  // namespace tutti::http
