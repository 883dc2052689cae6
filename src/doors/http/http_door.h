// HttpDoor: HTTP/1.1 (OpenAI-compatible, TEI's, KServe's, tokenizer, operations routes) in front of
// api::Inference.
//
// A few io threads own their connections for life and block on epoll only; what may take longer
// than a millisecond runs on one of three helper threads: one for large bodies, one for large
// tokenizer requests, one for large answers of encoders. A client that goes away destroys its
// Generation or Encoding, which cancels it, in every phase. Start, Drain and Stop belong to one
// thread; the other methods may be called from any.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "telemetry/door_metrics.h"
#include "telemetry/metrics.h"
#include "wire/http_framing.h"

namespace tutti::auth {
class Authority;
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
namespace tutti::repeats {
class Repeats;
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
  wire::FramingLimits framing;                      // of one message: 413, 414, 431, 501
  size_t upload_bytes = (200 << 20) + (64 << 10);   // of a form with a file; 413
  Duration header_time = std::chrono::seconds(10);  // from the first byte of a request; 408
  Duration body_grace = std::chrono::seconds(10);   // before the body's rate counts
  int64_t held_bytes = 256 << 20;  // large bodies and answers of all connections: then 503
  double body_bytes_per_s = 1024;  // below it: 408
  Duration idle_time = std::chrono::seconds(60);  // between requests; closed without a word
  Duration reader_stall =
      std::chrono::seconds(30);    // bytes wait and none leave: the request is cancelled
  size_t unsent_bytes = 16 << 10;  // frames of one stream waiting for its socket; then its log is
                                   // not read (48 KiB there)
  Duration deadline_cap = std::chrono::hours(24);  // of X-Request-Timeout-Ms and deadline_ms
};

// Of a WebSocket; what its frames and messages may hold is wire::FrameLimits'.
struct SocketLimits {
  Duration auth_time = std::chrono::seconds(5);     // until it says who asks
  size_t auth_bytes = 16 << 10;                     // of what says it
  Duration ping_time = std::chrono::seconds(20);    // of silence; then we ask
  Duration silent_time = std::chrono::seconds(40);  // then it is closed
  Duration age = std::chrono::minutes(60);          // then nothing is begun any more
  Duration age_grace = std::chrono::seconds(30);    // for what runs then
  int pings_per_s = 100;                            // of the client
  int bad_messages = 16;                            // in a row
  size_t lanes = 64;
  size_t lane_messages = 16;           // that wait in one; of chat, verbs that wait
  size_t answers = 256;                // of chat, that are told at once
  size_t lane_memory_bytes = 1 << 20;  // of a dialog that is not stored
};

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address; "localhost" = 127.0.0.1
  int port = 8080;                 // 0 = a free one, see HttpDoor::port()
  int io_threads = 2;              // 1..4
  int max_connections = 4096;      // further ones wait to be accepted
  int prep_threads = 2;            // of the gateway, for GET /info
  std::string api_key;    // of --api-key-file, which the authority knows too: kept out of logs
  bool has_keys = false;  // somebody is known to the authority: an address of a network may be
                          // listened to
  std::string tls_cert_file, tls_key_file;  // PEM; both or neither
  // PEM of the authorities whose certificates clients may show, beside them; empty: none is asked
  // for. Required: who shows none is refused in the handshake.
  std::string tls_client_ca_file;
  bool tls_client_required = false;
  std::vector<std::string> cors_origins;  // "https://app.example", in lower case, or "*"
  // Names this server may be called by, in lower case. On a loopback address they come beside the
  // loopback names; elsewhere beside addresses in digits, and an empty list allows every name.
  std::vector<std::string> allowed_hosts;
  bool strict = false;  // unknown request fields are 400
  // Silence before a comment on a stream; unset = 15 s, on /generate 5 s; 0 = never.
  std::optional<Duration> keepalive;
  // Answers may be kept: the head of a streamed one says what became of its request there.
  bool tells_cache = false;
  int queue_full_status = 503;  // or 429
  bool access_log = true;
  std::string version = "0.0.0";  // GET /version
  // SO_SNDBUF of connections; 0 = the system's, which grows to megabytes for a reader that stopped.
  int send_buffer_bytes = 64 << 10;
  HttpLimits limits;
  SocketLimits socket;
};

// Whether these may be listened with (access/bind_rule.h).
Status CheckBind(const HttpOptions& options);

class HttpDoor {
 public:
  struct Dependencies {  // all outlive the door
    api::Inference* inference = nullptr;
    const auth::Authority* authority = nullptr;  // who may ask
    const api::HealthProbe* health = nullptr;
    telemetry::MetricsRegistry* metrics = nullptr;  // exposed by GET /metrics
    telemetry::DoorMetrics* serving = nullptr;      // may be null
    Logger* log = nullptr;                          // may be null
    const Clock* clock = nullptr;
    kserve::Repository* repository = nullptr;  // of the routes below /v2
    // Of those below /v1/responses and /v1/conversations, which are not offered without both.
    responses::Responses* responses = nullptr;
    sessions::Sessions* sessions = nullptr;
    const sessions::Chat* chat = nullptr;  // of /v1/ws, which is not offered without it either
    jobs::Jobs* jobs = nullptr;            // of those below /v1/jobs, and of Prefer: respond-async
    // Of those below /v1/files and /v1/batches; both or neither.
    batches::Files* files = nullptr;
    batches::Batches* batches = nullptr;
    repeats::Repeats* repeats = nullptr;  // of Idempotency-Key on routes that generate or embed
  };

  HttpDoor(HttpOptions options, Dependencies dependencies);
  ~HttpDoor();  // Stop()
  HttpDoor(const HttpDoor&) = delete;
  HttpDoor& operator=(const HttpDoor&) = delete;

  Status Start();    // binds and serves; reasons: invalid_value (address, bind rule, TLS files)
  int port() const;  // after Start()
  std::string address() const;  // "http://127.0.0.1:8080", after Start()

  // Closes the listening socket and idle connections, lets requests finish (their replies say
  // `Connection: close`), and returns when no connection is left or `limit` has passed: false if a
  // request was unanswered then.
  bool Drain(Duration limit);
  void Stop();  // closes everything now, cancelling what runs; joins the threads

  int open_connections() const;
  int active_requests() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::http
