// HttpServer: the HTTP/1.1 server of api::Inference: OpenAI-compatible, TEI, KServe, tokenizer and
// operations routes.
//
// A few I/O threads own their connections for the connections' lifetime, and block on epoll only.
// Work that may take longer than a millisecond runs on one of three helper threads: for large
// bodies, for large tokenizer requests, and for large answers of encoders. A disconnect destroys
// the client's Generation or Encoding, which cancels it, in every phase. Start, Drain and Stop must
// be called by one thread; the other methods by any.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/adapter_control.h"
#include "api/caller.h"
#include "api/inference.h"
#include "api/live_state.h"
#include "api/request_trace.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "protocol/http1/framing.h"
#include "telemetry/metrics.h"
#include "telemetry/recent_errors.h"
#include "telemetry/server_metrics.h"

namespace tutti::api {
class ModelControl;
class ModelLibrary;
}  // namespace tutti::api
namespace tutti::auth {
class Authenticator;
}
namespace tutti::batches {
class Batches;
class Files;
}  // namespace tutti::batches
namespace tutti::jobs {
class Jobs;
}
namespace tutti::kserve {
class Repository;
}
namespace tutti::idempotency {
class IdempotencyKeys;
}
namespace tutti::responses {
class Responses;
}
namespace tutti::sessions {
class Chat;
class Sessions;
}  // namespace tutti::sessions

namespace tutti::http {

// Limits of the input contract (docs/http.md). Configurable so that tests reach
// them quickly.
struct HttpLimits {
  protocol::FramingLimits framing;                  // of one message: 413, 414, 431, 501
  size_t upload_bytes = (200 << 20) + (64 << 10);   // of a form with a file; 413
  Duration header_time = std::chrono::seconds(10);  // from the first byte of a request; 408
  Duration body_grace = std::chrono::seconds(10);   // before the body's rate counts
  int64_t held_bytes = 256 << 20;  // large bodies and answers of all connections; beyond it 503
  double body_bytes_per_s = 1024;  // below it: 408
  Duration idle_time = std::chrono::seconds(60);  // between requests; then closed
  Duration reader_stall =
      std::chrono::seconds(30);    // bytes wait and none leave: the request is cancelled
  size_t unsent_bytes = 16 << 10;  // frames of one stream waiting for its socket; then its log is
                                   // not read (48 KiB there)
  Duration deadline_cap = std::chrono::hours(24);  // limit of X-Request-Timeout-Ms and deadline_ms
};

// Limits of a WebSocket; those of frames and messages are protocol::FrameLimits.
struct SocketLimits {
  Duration auth_time = std::chrono::seconds(5);     // until the client has authenticated
  size_t auth_bytes = 16 << 10;                     // of the authentication message
  Duration ping_time = std::chrono::seconds(20);    // of silence, then a ping is sent
  Duration silent_time = std::chrono::seconds(40);  // of silence, then the socket is closed
  Duration age = std::chrono::minutes(60);          // then nothing new may begin
  Duration age_grace = std::chrono::seconds(30);    // for what still runs at that age
  int pings_per_s = 100;                            // from the client
  int bad_messages = 16;                            // in a row
  size_t channels = 64;
  size_t channel_messages = 16;           // waiting in a channel; for chats, waiting commands
  size_t answers = 256;                   // for chats: answers sent concurrently
  size_t channel_memory_bytes = 1 << 20;  // of a dialog that is not stored
};

// Whether the page is served.
enum class WebMode : uint8_t { kOff, kOn, kAdminOnly };

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address; "localhost" = 127.0.0.1
  int port = 8080;                 // 0 = a free one, see HttpServer::port()
  int ollama_port = 0;             // of a second listener for the same routes; 0 = none
  int io_threads = 2;              // 1..4
  int max_connections = 4096;      // further ones wait to be accepted
  int prep_threads = 2;            // of the gateway, for GET /info
  std::string api_key;             // from --api-key-file; also in the authority; hidden in logs
  bool has_keys = false;           // credentials exist; required for a network address
  std::string tls_cert_file, tls_key_file;  // PEM; both or neither
  // PEM file of authorities for client certificates, in addition to the server's certificate and
  // key; empty: no certificate is requested. With `tls_client_required`, the handshake fails for
  // clients without a certificate.
  std::string tls_client_ca_file;
  bool tls_client_required = false;
  std::vector<std::string> cors_origins;  // "https://app.example", in lower case, or "*"
  // Allowed host names of this server, in lower case. A loopback address also allows the loopback
  // names; any other address also allows IP addresses, and an empty list allows every name.
  std::vector<std::string> allowed_hosts;
  // The page. With kAdminOnly it works for callers with the scope admin alone.
  WebMode web = WebMode::kOff;
  // "/tutti": every route is answered below this path too, for a proxy that does not remove it.
  std::string web_base;
  bool strict = false;  // unknown request fields are 400
  // Silence before a comment on a stream; unset = 15 s, on /generate 5 s; 0 = never.
  std::optional<Duration> keepalive;
  // Answers may be kept: the head of a streamed answer then reports the result of the cache
  // look-up.
  bool tells_cache = false;
  int queue_full_status = 503;  // or 429
  bool access_log = true;
  std::string version = "0.0.0";  // GET /version
  // SO_SNDBUF of connections; 0 = the system's, which grows to megabytes for a reader that stopped.
  int send_buffer_bytes = 64 << 10;
  HttpLimits limits;
  SocketLimits socket;
};

// Options whose values have changed: those that were applied, and those that need a restart.
struct ReloadReport {
  std::vector<std::string> applied, needs_restart;
};

// Checks whether the server may listen with these options (access/listen_rules.h).
Status CheckBind(const HttpOptions& options);

class HttpServer {
 public:
  struct Dependencies {  // all outlive the server
    api::Inference* inference = nullptr;
    const auth::Authenticator* authority = nullptr;  // decides who may call
    const api::HealthProbe* health = nullptr;
    telemetry::MetricsRegistry* metrics = nullptr;  // exposed by GET /metrics
    telemetry::ServerMetrics* serving = nullptr;    // may be null
    Logger* log = nullptr;                          // may be null
    const Clock* clock = nullptr;
    kserve::Repository* repository = nullptr;  // for the routes below /v2
    // For the routes below /v1/responses and /v1/conversations, which need both.
    responses::Responses* responses = nullptr;
    sessions::Sessions* sessions = nullptr;
    const sessions::Chat* chat = nullptr;  // for /v1/ws, which needs it too
    jobs::Jobs* jobs = nullptr;  // for the routes below /v1/jobs and Prefer: respond-async
    // For the routes below /v1/files and /v1/batches; both or neither.
    batches::Files* files = nullptr;
    batches::Batches* batches = nullptr;
    idempotency::IdempotencyKeys* idempotency_keys =
        nullptr;  // for Idempotency-Key on routes that generate or embed
    api::AdapterControl* adapters = nullptr;  // for /v1/load_lora_adapter and its counterpart
    // For the routes that load and unload models; null: they are not offered.
    api::ModelControl* control = nullptr;
    // Counts a load by a request without a prompt (Ollama's) against the caller's limits; an error
    // refuses it. May be null.
    std::function<Status(const api::CallerRef& caller, const std::string& model)> count_load = {};
    // For Ollama's pull, copy and delete; null: they are not offered.
    api::ModelLibrary* library = nullptr;
    // For POST /admin/reload: reads the configuration again. Blocks for files; any thread. May be
    // null.
    std::function<Result<ReloadReport>()> reload = {};
    // For the routes that show operators the live state; all may be null.
    api::LiveSource* live = nullptr;  // null: the engines are not in this process
    api::RequestTraces* traces = nullptr;
    telemetry::RecentErrors* errors = nullptr;
    // For the other routes below /admin: executes a control request (protocol/control.h) of the
    // operator with credential `by`, and passes the answer to `done`, once, on any thread. Does not
    // block; any thread. May be null.
    using OperatorAnswer = std::function<void(Result<std::string>)>;
    std::function<void(std::string request, std::string by, OperatorAnswer done)> operate = {};
    // What is left of a caller's limits. Does not block; any thread. May be null: there are none.
    std::function<std::vector<api::CallerLimitState>(const api::Caller&)> limits_left = {};
  };

  HttpServer(HttpOptions options, Dependencies dependencies);
  ~HttpServer();  // Stop()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  Status Start();    // binds and serves; errors: invalid_value (address, bind rule, TLS files)
  int port() const;  // after Start()
  std::string address() const;         // "http://127.0.0.1:8080", after Start()
  std::string ollama_address() const;  // of the second listener; empty: there is none

  // Closes the listening socket and idle connections, and waits until no connection is left or
  // `limit` has passed; answers to running requests have `Connection: close`. False: a request was
  // unanswered at the limit.
  bool Drain(Duration limit);
  void Stop();  // cancels and closes everything at once; joins the threads

  // Checks other options, and reads the TLS files that they name. The result applies the TLS files
  // to connections that are accepted from then on, and hides the options' key in logs; all other
  // options stay. Call it between Start() and Stop(). Errors: those of CheckBind and of
  // sockets::LoadServerTls; invalid_value if TLS would be turned on or off.
  Result<std::function<void()>> PrepareReload(const HttpOptions& options);

  int open_connections() const;
  int active_requests() const;  // without watchers of the live state

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::http
