// GrpcServer: the gRPC server of api::Inference: KServe v2 with Triton's additions, the service
// tutti.v1, health checking and reflection.
//
// The gRPC library implements HTTP/2, and its threads deliver messages. The server has three
// threads of its own: one accepts connections, one passes them to the library (acceptor.h), and the
// pump sends the output of models. No thread waits for inference. When a client cancels or
// disconnects, its work is cancelled. Start, Drain and Stop must be called by one thread; the other
// methods by any. This header includes no header of the gRPC library.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "protocol/kserve/repository.h"
#include "server/grpc/abuse_limits.h"
#include "telemetry/recent_errors.h"
#include "telemetry/server_metrics.h"

namespace tutti::auth {
class Authenticator;
}

namespace tutti::rpc {

// Limits of what an untrusted client may cost. Configurable so that tests can reach them quickly.
struct GrpcLimits {
  int message_bytes = 8 << 20;  // of one message, also inflated: RESOURCE_EXHAUSTED
  int metadata_bytes = 32 << 10;
  int streams = 100;                  // concurrent calls of one connection; more wait at the client
  int connections = 1024;             // further ones wait to be accepted
  int64_t library_bytes = 256 << 20;  // memory of the gRPC library for all connections
  int64_t waiting_bytes = 256 << 20;  // of messages that wait for a handler; beyond it UNAVAILABLE
  int waiting_calls = 1024;           // calls that wait for a handler; beyond it UNAVAILABLE
  int stream_requests = 64;           // unanswered requests of one stream; then reading pauses
  Duration handshake = std::chrono::seconds(10);     // until a new connection speaks HTTP/2
  Duration idle = std::chrono::minutes(10);          // without a call; then the client gets GOAWAY
  Duration reader_stall = std::chrono::seconds(30);  // a message waits, none is sent: cancelled
  Duration deadline_cap = std::chrono::hours(24);
  AbuseLimits abuse;        // of one connection; beyond it, the connection is shut down
  PenaltyLimits penalties;  // of its address: new connections are delayed
};

struct GrpcOptions {
  std::string host = "127.0.0.1";  // an address; "localhost" = 127.0.0.1
  int port = 8081;                 // 0 = a free one, see port()
  // Calls prepared concurrently: read, validated, prompts tokenised. Further calls wait without
  // occupying a thread or a sequence of the model.
  int handlers = 10;
  bool has_keys = false;                    // credentials exist; required for a network address
  std::string tls_cert_file, tls_key_file;  // PEM; both or neither
  // PEM file of authorities for client certificates, in addition to the server's certificate and
  // key; empty: no certificate is requested. With `tls_client_required`, the handshake fails for
  // clients without a certificate.
  std::string tls_client_ca_file;
  bool tls_client_required = false;
  bool access_log = true;
  GrpcLimits limits;
};

// Checks whether the server may listen with these options (access/listen_rules.h).
Status CheckBind(const GrpcOptions& options);

class GrpcServer {
 public:
  struct Dependencies {  // all outlive the server
    api::Inference* inference = nullptr;
    const auth::Authenticator* authority = nullptr;  // decides who may call
    const api::HealthProbe* health = nullptr;
    kserve::Repository* repository = nullptr;
    telemetry::ServerMetrics* metrics = nullptr;  // may be null
    Logger* log = nullptr;                        // may be null
    const Clock* clock = nullptr;
    telemetry::RecentErrors* errors = nullptr;  // may be null
  };

  GrpcServer(GrpcOptions options, Dependencies dependencies);
  ~GrpcServer();  // Stop()
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  Status Start();    // binds and serves; errors: invalid_value (address, bind rule, TLS files)
  int port() const;  // after Start()
  std::string address() const;  // "grpc://127.0.0.1:8081" (grpcs with TLS), after Start()

  // Checks and reads the TLS files of `options`. If they hold something else than before, the
  // result makes new connections use it: clients are told to connect again (GOAWAY), and their
  // calls end as they began. The other options stay. Call the result after Start() only. Errors:
  // those of Start() for TLS files; invalid_value if TLS would be turned on or off.
  Result<std::function<void()>> PrepareReload(const GrpcOptions& options);

  // Accepts no new connection, sends GOAWAY to clients, and waits until no call is left or `limit`
  // has passed. False: a call was unanswered at the limit; it is cancelled.
  bool Drain(Duration limit);
  void Stop();  // cancels everything at once; joins the threads

  int open_connections() const;
  int active_requests() const;  // running calls, without watches of the health service

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::rpc
