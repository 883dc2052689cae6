// Servers on free local ports in front of a app::LocalInference, for benchmarks. No authentication,
// no log.
//
// For use by one thread; any thread may call hold_times() and connections().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/local_inference.h"
#include "app/mqtt/mqtt_login.h"
#include "base/log.h"
#include "protocol/kserve/repository.h"
#include "server/grpc/grpc_server.h"
#include "server/http/connection/http_server.h"
#include "server/mqtt/chat/profile.h"
#include "server/mqtt/listener/listener.h"
#include "services/auth/authenticator.h"
#include "services/responses/responses.h"
#include "services/sessions/sessions.h"
#include "store/store.h"
#include "telemetry/metrics.h"

namespace tutti::bench {

// A store without keys and users: every program on this machine may call.
struct LoopbackAccounts {
  // `folder`: empty: in memory. Errors: those of the store.
  static Result<LoopbackAccounts> Open(const std::string& folder);

  std::unique_ptr<store::Store> store;
  std::unique_ptr<auth::Accounts> accounts;
  std::unique_ptr<auth::Authenticator> authority;
};

// The gRPC server.
class GrpcLoopback {
 public:
  // `inference` outlives it. Errors: io_error, overloaded.
  static Result<std::unique_ptr<GrpcLoopback>> Start(app::LocalInference& inference);

  std::string address() const { return server_.address(); }  // "grpc://127.0.0.1:40001"
  int connections() const { return server_.open_connections(); }

 private:
  GrpcLoopback(app::LocalInference& inference, LoopbackAccounts accounts);

  const LoopbackAccounts accounts_;
  kserve::Repository repository_;
  rpc::GrpcServer server_;
};

// HTTP server and MQTT listener with their own dialogs, to measure the same chat over both
// protocols.
class ChatLoopback {
 public:
  struct Options {
    std::string store_folder;           // empty: in memory
    size_t resident = 100;              // idle sessions in memory
    std::vector<std::string> projects;  // of the project profile, with JSON replies
  };

  // `inference` outlives it. Errors: io_error, overloaded; those of the store.
  static Result<std::unique_ptr<ChatLoopback>> Start(app::LocalInference& inference,
                                                     const Options& options);
  ~ChatLoopback();

  std::string http_url() const { return http_.address(); }  // "http://127.0.0.1:40001"
  int mqtt_port() const { return listener_.port(); }
  // How long dialogs' data was held.
  const responses::HoldTimes& hold_times() const { return sessions_.hold_times(); }

 private:
  ChatLoopback(app::LocalInference& inference, const Options& options, LoopbackAccounts accounts);
  Status Serve(app::LocalInference& inference, const Options& options);

  const LoopbackAccounts accounts_;
  Logger log_;
  telemetry::MetricsRegistry metrics_;
  responses::Responses responses_;
  sessions::Sessions sessions_;
  kserve::Repository repository_;
  http::HttpServer http_;
  app::MqttLogin login_;
  mqtt::listener::Listener listener_;
  std::unique_ptr<mqtt::chat::Profile> profile_;
};

}  // namespace tutti::bench
