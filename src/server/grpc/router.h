// The table of gRPC methods: the handler of each, and the scopes that it requires; the factories of
// all handlers, and the handler of methods that answer at once. Pure, except for what the handlers
// do.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "server/grpc/call.h"
#include "server/grpc/server_context.h"
#include "services/auth/grant.h"
#include "telemetry/labels.h"

namespace tutti::rpc {

// A message that is not of the method's type.
inline Status Unreadable() {
  return InvalidArgument("invalid_value", "the request is no message of this method");
}

// The deadline passed before anything was done.
inline Status ExpiredDeadline() {
  return Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                "the deadline passed before the request was looked at");
}

// A call that reads one message and answers it at once. `Answer` is Status(Call&, const Request&,
// Response*).
template <auto Answer>
class Unary;
template <typename Request, typename Response, Status (*Answer)(Call&, const Request&, Response*)>
class Unary<Answer> final : public CallHandler {
 public:
  using CallHandler::CallHandler;
  static HandlerPtr Make(Call& call) { return std::make_unique<Unary>(call); }

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    Request request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    Response response;
    const Status status = Answer(call_, std::as_const(request), &response);
    status.ok() ? call_.Reply(response) : call_.Finish(status);
  }
  void OnEnd() override { call_.Finish(Unreadable()); }
};

// KServe v2 and Triton's additions (inference/grpc_service.proto): kserve_calls.cc
HandlerPtr MakeServerLive(Call& call);
HandlerPtr MakeServerReady(Call& call);
HandlerPtr MakeModelReady(Call& call);
HandlerPtr MakeServerMetadata(Call& call);
HandlerPtr MakeModelMetadata(Call& call);
HandlerPtr MakeModelConfig(Call& call);
HandlerPtr MakeModelStatistics(Call& call);
HandlerPtr MakeRepositoryIndex(Call& call);
HandlerPtr MakeModelLoad(Call& call);
HandlerPtr MakeModelUnload(Call& call);
HandlerPtr MakeSystemUnregister(Call& call);
HandlerPtr MakeCudaUnregister(Call& call);
HandlerPtr MakeNotOffered(Call& call);  // shared memory, settings
HandlerPtr MakeModelInfer(Call& call);
// kserve_stream.cc
HandlerPtr MakeModelStreamInfer(Call& call);

// tutti.v1 (tutti/v1/tutti.proto): tutti_calls.cc, tutti_generate.cc
HandlerPtr MakeEmbed(Call& call);
HandlerPtr MakeScore(Call& call);
HandlerPtr MakeGenerate(Call& call);
HandlerPtr MakeMetrics(Call& call);

// The standard's services: standard_services.cc
HandlerPtr MakeHealthCheck(Call& call);
HandlerPtr MakeHealthWatch(Call& call);
HandlerPtr MakeReflection(Call& call);
HandlerPtr MakeReflectionAlpha(Call& call);

// --- the table ---

struct Method {
  std::string_view path;  // "/grpc.health.v1.Health/Check"
  HandlerPtr (*make)(Call& call);
  auth::RouteClasses rule;  // required scopes, any of them; kPublic: no authentication
  telemetry::OpKind op = telemetry::OpKind::kOther;
  bool open = false;     // callable without a key; the handler decides what it reveals
  bool watches = false;  // lasts until its client ends it: not drained, not logged
  bool handled = false;  // its messages wait for a handler that prepares their requests
  bool measured = true;  // counts in the latency window
};

std::span<const Method> Methods();
const Method* FindMethod(std::string_view path);  // null if unknown

}  // namespace tutti::rpc
