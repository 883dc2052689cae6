// The calls of a gRPC server, one reactor each: authentication, messages in and out, and the
// status. With grpc_door.cc the only code that uses the gRPC library.
#pragma once

// clang-format off: first
#include "doors/grpc/grpc_library.h"
// clang-format on
#include "doors/grpc/door_context.h"

namespace tutti::rpc {

// Takes every call of a server, known method or not. `context` outlives it.
class CallService final : public grpc::CallbackGenericService {
 public:
  explicit CallService(DoorContext& context) : context_(context) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override;

 private:
  DoorContext& context_;
};

}  // namespace tutti::rpc
