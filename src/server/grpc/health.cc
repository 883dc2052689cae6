// grpc.health.v1.Health: Check and Watch, of the server, of its services, and of each model.
//
// The library's own health service knows no models. Without a key, only the state of the server and
// its services is visible, because the list of models is for authorised callers.
#include <grpc/health/v1/health.pb.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "server/grpc/services.h"
#include "server/grpc/unary.h"

namespace tutti::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Serving = HealthCheckResponse::ServingStatus;

constexpr Duration kLook = std::chrono::milliseconds(250);  // of a watch at what it watches

bool IsService(const std::string& name) {
  for (const char* const service : {"", "inference.GRPCInferenceService", "tutti.v1.Tutti"}) {
    if (name == service) return true;
  }
  return false;
}

// Returns nullopt for an unknown service (yet).
std::optional<Serving> StatusOf(const Call& call, const std::string& service) {
  const GrpcServer::Dependencies& deps = call.context().deps;
  const bool serving = deps.health->ready().ok() && !call.context().draining.load();
  if (IsService(service)) {
    return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  }
  const auto model = deps.repository->Find(service, "");
  if (!model.ok()) {
    // A name may turn out to be a model's while they are loaded.
    return model.status().code() == StatusCode::kNotFound
               ? std::nullopt
               : std::optional(HealthCheckResponse::NOT_SERVING);
  }
  const bool ready = deps.repository->ModelReady(service, "").ok();
  return ready && !call.context().draining.load() ? HealthCheckResponse::SERVING
                                                  : HealthCheckResponse::NOT_SERVING;
}

Status Unauthorized() {
  return Status(StatusCode::kUnauthenticated, "invalid_api_key",
                "a valid key is needed to ask for a model: authorization: Bearer <key>");
}

Status Check(Call& call, const HealthCheckRequest& request, HealthCheckResponse* response) {
  if (call.info().principal == nullptr && !IsService(request.service())) return Unauthorized();
  const std::optional<Serving> status = StatusOf(call, request.service());
  if (!status.has_value()) {
    return NotFound("not_found", "there is no service or model of that name");
  }
  response->set_status(*status);
  return OkStatus();
}

class WatchHandler final : public CallHandler {
 public:
  using CallHandler::CallHandler;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    HealthCheckRequest request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    if (call_.info().principal == nullptr && !IsService(request.service())) {
      return call_.Finish(Unauthorized());
    }
    service_ = request.service();
    Look();
  }
  void OnEnd() override {
    if (!service_.has_value()) call_.Finish(Unreadable());
  }
  void OnWritten() override {
    writing_ = false;
    Look();
  }
  void Pump() override { Look(); }
  bool waits() const override { return service_.has_value(); }
  TimePoint due() const override { return next_; }

 private:
  void Look() {
    if (!service_.has_value() || writing_) return;
    next_ = call_.context().deps.clock->Now() + kLook;
    const Serving status =
        StatusOf(call_, *service_).value_or(HealthCheckResponse::SERVICE_UNKNOWN);
    if (told_ != status) {
      told_ = status;
      HealthCheckResponse response;
      response.set_status(status);
      writing_ = true;
      return call_.Write(response);
    }
    if (call_.context().draining.load()) {
      call_.Finish(Unavailable("draining", "the server is shutting down"));
    }
  }

  std::optional<std::string> service_;
  std::optional<Serving> told_;
  bool writing_ = false;
  TimePoint next_ = TimePoint::max();
};

}  // namespace

std::unique_ptr<CallHandler> MakeHealthCheck(Call& call) {
  return Unary<HealthCheckRequest, HealthCheckResponse, Check>::Make(call);
}
std::unique_ptr<CallHandler> MakeHealthWatch(Call& call) {
  return std::make_unique<WatchHandler>(call);
}

}  // namespace tutti::rpc
