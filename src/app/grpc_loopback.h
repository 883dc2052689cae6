// GrpcLoopback: gRPC server on a free local port in front of a LocalInference, for benchmarks. No
// authentication, no log.
//
// For use by one thread; any thread may call connections().
#pragma once

#include <memory>
#include <string>

#include "app/local_inference.h"
#include "doors/grpc/grpc_door.h"
#include "kserve/repository.h"
#include "services/auth/authority.h"
#include "store/store.h"

namespace tutti::app {

class GrpcLoopback {
 public:
  // `inference` outlives it. Errors: io_error, overloaded.
  static Result<std::unique_ptr<GrpcLoopback>> Start(LocalInference& inference);

  std::string address() const { return door_.address(); }  // "grpc://127.0.0.1:40001"
  int connections() const { return door_.open_connections(); }

 private:
  GrpcLoopback(LocalInference& inference, std::unique_ptr<store::Store> store,
               std::unique_ptr<auth::Accounts> accounts,
               std::unique_ptr<auth::Authority> authority);

  const std::unique_ptr<store::Store> store_;  // in memory, and empty
  const std::unique_ptr<auth::Accounts> accounts_;
  const std::unique_ptr<auth::Authority> authority_;
  kserve::Repository repository_;
  rpc::GrpcDoor door_;
};

}  // namespace tutti::app
