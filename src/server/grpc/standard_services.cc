// The standard services. grpc.health.v1.Health: Check and Watch, of the server, of its services,
// and of each model. grpc.reflection: what services there are and the files that describe them,
// under v1 and v1alpha, which differ in their package alone.
//
// The library's own health service knows no models. Without a key, only the state of the server and
// its services is visible, because the list of models is for authorised callers.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/health/v1/health.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <inference/grpc_service.pb.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "server/grpc/router.h"

namespace tutti::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Serving = HealthCheckResponse::ServingStatus;

constexpr Duration kLook = std::chrono::milliseconds(250);  // of a watch at what it watches

bool IsService(const std::string& name) {
  return name.empty() || name == "inference.GRPCInferenceService" || name == "tutti.v1.Tutti";
}

// Returns nullopt for an unknown service (yet).
std::optional<Serving> StatusOf(const Call& call, const std::string& service) {
  const GrpcServer::Dependencies& deps = call.context().deps;
  const bool serving = deps.health->ready().ok() && !call.context().draining.load();
  if (IsService(service)) {
    return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  }
  const auto model = deps.repository->Find(service, "", CallerOf(call));
  if (!model.ok()) {
    // A name may turn out to be a model's while they are loaded.
    return model.status().code() == StatusCode::kNotFound
               ? std::nullopt
               : std::optional(HealthCheckResponse::NOT_SERVING);
  }
  const bool ready = deps.repository->ModelReady(service, "", CallerOf(call)).ok();
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
      call_.Finish(Draining());
    }
  }

  std::optional<std::string> service_;
  std::optional<Serving> told_;
  bool writing_ = false;
  TimePoint next_ = TimePoint::max();
};

namespace pb = google::protobuf;
using grpc::reflection::v1::ErrorResponse;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

constexpr std::string_view kV1 = "grpc.reflection.v1", kAlpha = "grpc.reflection.v1alpha";
constexpr const char* kV1File = "grpc/reflection/v1/reflection.proto";
constexpr const char* kAlphaFile = "grpc/reflection/v1alpha/reflection.proto";

void SetError(StatusCode code, std::string text, ServerReflectionResponse* response) {
  ErrorResponse& error = *response->mutable_error_response();
  error.set_error_code(static_cast<int>(code));
  error.set_error_message(std::move(text));
}

// ".grpc.reflection.v1.X" -> ".grpc.reflection.v1alpha.X"
void ToAlpha(std::string* type) {
  const std::string from = "." + std::string(kV1) + ".";
  if (type->starts_with(from)) *type = "." + std::string(kAlpha) + "." + type->substr(from.size());
}

// The file of v1 under the package of v1alpha.
pb::FileDescriptorProto AlphaFile() {
  pb::FileDescriptorProto file;
  ServerReflectionRequest::descriptor()->file()->CopyTo(&file);
  file.set_name(kAlphaFile);
  file.set_package(std::string(kAlpha));
  for (auto& message : *file.mutable_message_type()) {
    for (auto& field : *message.mutable_field()) {
      if (field.has_type_name()) ToAlpha(field.mutable_type_name());
    }
  }
  for (auto& service : *file.mutable_service()) {
    for (auto& method : *service.mutable_method()) {
      ToAlpha(method.mutable_input_type());
      ToAlpha(method.mutable_output_type());
    }
  }
  return file;
}

bool IsAlphaSymbol(const std::string& symbol) {
  return symbol.starts_with(std::string(kAlpha) + ".");
}

// A file and all it imports.
void AddFiles(const pb::FileDescriptor& file, std::set<std::string>* seen,
              ServerReflectionResponse* response) {
  if (!seen->insert(file.name()).second) return;
  pb::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(
      proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFiles(*file.dependency(i), seen, response);
}

void AnswerFile(const pb::FileDescriptor* file, bool alpha, ServerReflectionResponse* response) {
  if (alpha) {
    response->mutable_file_descriptor_response()->add_file_descriptor_proto(
        AlphaFile().SerializeAsString());
    return;
  }
  if (file == nullptr) return SetError(StatusCode::kNotFound, "there is no such file", response);
  std::set<std::string> seen;
  AddFiles(*file, &seen, response);
}

void Answer(const ServerReflectionRequest& request, ServerReflectionResponse* response) {
  const pb::DescriptorPool& pool = *pb::DescriptorPool::generated_pool();
  response->set_valid_host(request.host());
  *response->mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices: {
      std::set<std::string> services;
      for (const Method& method : Methods()) {
        services.emplace(method.path.substr(1, method.path.rfind('/') - 1));
      }
      for (const std::string& service : services) {
        response->mutable_list_services_response()->add_service()->set_name(service);
      }
      return;
    }
    case ServerReflectionRequest::kFileByFilename:
      return AnswerFile(pool.FindFileByName(request.file_by_filename()),
                        request.file_by_filename() == kAlphaFile, response);
    case ServerReflectionRequest::kFileContainingSymbol:
      return AnswerFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
                        IsAlphaSymbol(request.file_containing_symbol()), response);
    case ServerReflectionRequest::kFileContainingExtension:
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      return SetError(StatusCode::kNotFound, "there are no extensions", response);
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      break;
  }
  SetError(StatusCode::kInvalidArgument, "the request asks for nothing", response);
}

class ReflectionHandler final : public CallHandler {
 public:
  using CallHandler::CallHandler;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& message) override {
    ServerReflectionRequest request;
    if (!request.ParseFromZeroCopyStream(&message)) return call_.Finish(Unreadable());
    ServerReflectionResponse response;
    Answer(request, &response);
    call_.Write(response);
  }
  void OnWritten() override { call_.Read(); }
  void OnEnd() override { call_.Finish(OkStatus()); }
};

}  // namespace

HandlerPtr MakeHealthCheck(Call& call) { return Unary<Check>::Make(call); }
HandlerPtr MakeHealthWatch(Call& call) { return std::make_unique<WatchHandler>(call); }

HandlerPtr MakeReflection(Call& call) {
  // A file is only known once something of it was linked.
  (void)inference::ServerLiveRequest::descriptor();
  return std::make_unique<ReflectionHandler>(call);
}
HandlerPtr MakeReflectionAlpha(Call& call) { return MakeReflection(call); }

}  // namespace tutti::rpc
