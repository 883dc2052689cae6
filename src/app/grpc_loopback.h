// GrpcLoopback: gRPC server on a free local port in front of a LocalInference, for benchmarks. No
// authentication, no log.
//
// For use by one thread; any thread may call connections().
#pragma once

#include <memory>
#include <string>

#include "app/local_inference.h"
#include "kserve/repository.h"
#include "server/grpc/grpc_server.h"
#include "services/auth/authenticator.h"
#include "store/store.h"

namespace tutti::app {

class GrpcLoopback {
 public:
  // `inference` outlives it. Errors: io_error, overloaded.
  static Result<std::unique_ptr<GrpcLoopback>> Start(LocalInference& inference);

  std::string address() const { return server_.address(); }  // "grpc://127.0.0.1:40001"
  int connections() const { return server_.open_connections(); }

 private:
  GrpcLoopback(LocalInference& inference, std::unique_ptr<store::Store> store,
               std::unique_ptr<auth::Accounts> accounts,
               std::unique_ptr<auth::Authenticator> authority);

  const std::unique_ptr<store::Store> store_;  // in memory, and empty
  const std::unique_ptr<auth::Accounts> accounts_;
  const std::unique_ptr<auth::Authenticator> authority_;
  kserve::Repository repository_;
  rpc::GrpcServer server_;
};

}  // namespace tutti::app
