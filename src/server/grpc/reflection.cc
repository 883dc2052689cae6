// grpc.reflection: what services there are and the files that describe them, under v1 and v1alpha,
// which differ in their package alone.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <inference/grpc_service.pb.h>

#include <set>
#include <string>
#include <utility>

#include "server/grpc/router.h"
#include "server/grpc/services.h"
#include "server/grpc/unary.h"

namespace tutti::rpc {
namespace {

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

std::unique_ptr<CallHandler> MakeReflection(Call& call) {
  // A file is only known once something of it was linked.
  (void)inference::ServerLiveRequest::descriptor();
  return std::make_unique<ReflectionHandler>(call);
}
std::unique_ptr<CallHandler> MakeReflectionAlpha(Call& call) { return MakeReflection(call); }

}  // namespace tutti::rpc
