#include "app/grpc_loopback.h"

#include "app/version.h"

namespace tutti::app {
namespace {

rpc::GrpcOptions FreePort() {
  rpc::GrpcOptions options;
  options.port = 0;
  return options;
}

}  // namespace

GrpcLoopback::GrpcLoopback(LocalInference& inference)
    : repository_(
          {.server_version = kVersion},
          {.inference = &inference.gateway(), .health = &inference, .clock = &inference.clock()}),
      door_(FreePort(), {.inference = &inference.gateway(),
                         .health = &inference,
                         .repository = &repository_,
                         .clock = &inference.clock()}) {}

Result<std::unique_ptr<GrpcLoopback>> GrpcLoopback::Start(LocalInference& inference) {
  std::unique_ptr<GrpcLoopback> loopback(new GrpcLoopback(inference));
  RETURN_IF_ERROR(loopback->door_.Start());
  return loopback;
}

}  // namespace tutti::app
