// Shared by all calls of a server. Immutable or with its own synchronisation; any thread.
#pragma once

#include <atomic>
#include <string>

#include "server/grpc/connection_account.h"
#include "server/grpc/grpc_server.h"
#include "server/grpc/handlers.h"
#include "server/grpc/latency_window.h"
#include "server/grpc/pump.h"
#include "server/grpc/seen_certificates.h"

namespace tutti::rpc {

struct GrpcContext {
  GrpcContext(GrpcOptions server_options, const GrpcServer::Dependencies& dependencies);

  std::string NewRequestId();

  const GrpcOptions options;
  const GrpcServer::Dependencies deps;
  const bool loopback;
  Pump pump;
  Handlers handlers;  // waiting calls are run by the pump
  LatencyWindow window;
  ConnectionAccounts accounts;
  SeenCertificates certificates;
  std::atomic<int> active{0};  // calls being answered that a drain waits for
  std::atomic<bool> draining{false};

 private:
  const uint64_t id_key_;  // of this server's request ids
  std::atomic<uint64_t> next_id_{0};
};

}  // namespace tutti::rpc
