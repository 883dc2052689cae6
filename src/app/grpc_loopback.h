// GrpcLoopback: the gRPC door alone, on a free port of this machine, in front of a LocalInference:
// what a bench puts between itself and a model that it has loaded. No key, no log.
//
// One thread, but for connections(), which is for any.
#pragma once

#include <memory>
#include <string>

#include "app/local_inference.h"
#include "doors/grpc/grpc_door.h"
#include "kserve/repository.h"

namespace tutti::app {

class GrpcLoopback {
 public:
  // `inference` outlives it. Errors: io_error.
  static Result<std::unique_ptr<GrpcLoopback>> Start(LocalInference& inference);

  std::string address() const { return door_.address(); }  // "grpc://127.0.0.1:40001"
  int connections() const { return door_.open_connections(); }

 private:
  explicit GrpcLoopback(LocalInference& inference);

  kserve::Repository repository_;
  rpc::GrpcDoor door_;
};

}  // namespace tutti::app
