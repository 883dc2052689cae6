// Shared by all calls of a server. Immutable or with its own synchronisation; any thread.
#pragma once

#include <atomic>
#include <string>

#include "doors/grpc/connection_account.h"
#include "doors/grpc/grpc_door.h"
#include "doors/grpc/handlers.h"
#include "doors/grpc/latency_window.h"
#include "doors/grpc/pump.h"
#include "doors/grpc/seen_certificates.h"

namespace tutti::rpc {

struct DoorContext {
  DoorContext(GrpcOptions door_options, const GrpcDoor::Dependencies& dependencies);

  std::string NewRequestId();

  const GrpcOptions options;
  const GrpcDoor::Dependencies deps;
  const bool loopback;
  Pump pump;
  Handlers handlers;  // waiting calls are run by the pump
  LatencyWindow window;
  ConnectionAccounts accounts;
  SeenCertificates certificates;
  std::atomic<int> active{0};  // calls being answered that a drain waits for
  std::atomic<bool> draining{false};

 private:
  const uint64_t id_key_;  // of this door's request ids
  std::atomic<uint64_t> next_id_{0};
};

}  // namespace tutti::rpc
