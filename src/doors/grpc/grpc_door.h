// GrpcDoor: gRPC in front of api::Inference: KServe v2 with Triton's additions, the service
// tutti.v1, health checking and reflection.
//
// HTTP/2 is the gRPC library's; its threads bring messages in. Three threads are ours: one accepts
// connections, one hands them to the library (acceptor.h), and the pump carries out what the models
// give. None waits for inference. A client that cancels or goes away frees its work. Start, Drain
// and Stop belong to one thread; the other methods may be called from any. No header of the gRPC
// library is included here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "doors/grpc/address_penalties.h"
#include "doors/grpc/connection_account.h"
#include "kserve/repository.h"
#include "telemetry/door_metrics.h"

namespace tutti::auth {
class Authority;
}

namespace tutti::rpc {

// What an untrusted client may cost. Configurable so that tests reach them quickly.
struct GrpcLimits {
  int message_bytes = 8 << 20;  // of one message, also after it is inflated: RESOURCE_EXHAUSTED
  int metadata_bytes = 32 << 10;
  int streams = 100;       // calls at once on one connection; further ones wait at the client
  int connections = 1024;  // further ones wait to be accepted
  int64_t library_bytes = 256 << 20;  // what the gRPC library may hold for all connections
  int64_t waiting_bytes = 256 << 20;  // of messages that wait for a handler: then UNAVAILABLE
  int waiting_calls = 1024;           // likewise
  int stream_requests = 64;           // unanswered requests of one stream; then it is not read
  Duration handshake = std::chrono::seconds(10);     // until a new connection speaks HTTP/2
  Duration idle = std::chrono::minutes(10);          // without a call: told to go away
  Duration reader_stall = std::chrono::seconds(30);  // a message waits and none leaves: cancelled
  Duration deadline_cap = std::chrono::hours(24);
  AbuseLimits abuse;        // of one connection: then it is shut down
  PenaltyLimits penalties;  // of its address: new connections wait
};

struct GrpcOptions {
  std::string host = "127.0.0.1";  // an address; "localhost" = 127.0.0.1
  int port = 8081;                 // 0 = a free one, see port()
  // Calls being prepared at once: read, checked, their prompts tokenised. Further ones wait without
  // a thread, and without a lane of the model.
  int handlers = 10;
  bool has_keys = false;  // somebody is known to the authority: an address of a network may be
                          // listened to
  std::string tls_cert_file, tls_key_file;  // PEM; both or neither
  // PEM of the authorities whose certificates clients may show, beside them; empty: none is asked
  // for. Required: who shows none is refused in the handshake.
  std::string tls_client_ca_file;
  bool tls_client_required = false;
  bool access_log = true;
  GrpcLimits limits;
};

// Whether these may be listened with (access/bind_rule.h).
Status CheckBind(const GrpcOptions& options);

class GrpcDoor {
 public:
  struct Dependencies {  // all outlive the door
    api::Inference* inference = nullptr;
    const auth::Authority* authority = nullptr;  // who may ask
    const api::HealthProbe* health = nullptr;
    kserve::Repository* repository = nullptr;
    telemetry::DoorMetrics* metrics = nullptr;  // may be null
    Logger* log = nullptr;                      // may be null
    const Clock* clock = nullptr;
  };

  GrpcDoor(GrpcOptions options, Dependencies dependencies);
  ~GrpcDoor();  // Stop()
  GrpcDoor(const GrpcDoor&) = delete;
  GrpcDoor& operator=(const GrpcDoor&) = delete;

  Status Start();    // binds and serves; reasons: invalid_value (address, bind rule, TLS files)
  int port() const;  // after Start()
  std::string address() const;  // "grpc://127.0.0.1:8081" (grpcs with TLS), after Start()

  // Takes no new connection, tells clients to go elsewhere, lets calls finish, and returns when
  // none is left or `limit` has passed: false if a call was unanswered then, which is cancelled.
  bool Drain(Duration limit);
  void Stop();  // ends everything now, cancelling what runs; joins the threads

  int open_connections() const;
  int active_requests() const;  // calls that are being answered, watches of health apart

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::rpc
