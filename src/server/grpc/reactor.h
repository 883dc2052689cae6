// The calls of a gRPC server, one reactor each: authentication, messages in and out, and the
// status. With grpc_server.cc the only code that uses the gRPC library.
#pragma once

// clang-format off: first
#include "server/grpc/grpc_library.h"
// clang-format on
#include "server/grpc/server_context.h"

namespace tutti::rpc {

// Takes every call of a server, known method or not. `context` outlives it.
class CallService final : public grpc::CallbackGenericService {
 public:
  explicit CallService(GrpcContext& context) : context_(context) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override;

 private:
  GrpcContext& context_;
};

}  // namespace tutti::rpc
