// Router: what a request may do and which route answers it. Default deny: every route but the
// health ones asks for the key, if there is one, before it is even looked up. One table of routes;
// pure but for the key compare.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "doors/access/key_check.h"
#include "doors/http/http_door.h"
#include "doors/http/message_parser.h"
#include "telemetry/labels.h"
#include "wire/error.h"

namespace tutti::http {

enum class RouteId {
  kChat,
  kText,
  kGenerate,
  kEmbeddings,
  kRerank,
  kRerankOrTei,  // /rerank: Jina's form or TEI's
  kScore,
  kTeiEmbed,
  kTeiEmbedAll,
  kTeiPredict,
  kTeiSimilarity,
  kTeiRoot,  // POST /: whatever the model does
  kInfo,
  kDecode,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kModels,
  kModel,
  kVersion,
  kLoad,
  kMetrics,
  kLive,
  kReady,
  kStarted,
  kHealth,
  // KServe v2
  kKserveServer,
  kKserveLive,
  kKserveReady,
  kKserveModel,
  kKserveModelReady,
  kKserveConfig,
  kKserveStatistics,
  kKserveInfer,
  kKserveGenerate,
  kKserveGenerateStream,
  kKserveIndex,
  kKserveLoad,
  kKserveUnload,
  kKserveUnregister,  // all regions of shared memory
  kLater,             // documented, not in this release
};

// What a route's body may be.
enum class BodyKind : uint8_t {
  kJson,     // application/json, as it is
  kTensors,  // JSON, tensors or both, by Triton's clients: whatever they say it is, also compressed
};

struct Route {
  // "/v1/models/{id}": also what logs and metrics show. {id} takes all there is to the end of the
  // path, or to what follows it in the pattern.
  std::string_view pattern;
  std::string_view method;  // GET (HEAD too) or POST
  RouteId id;
  telemetry::OpKind op = telemetry::OpKind::kOther;
  bool open = false;        // GET needs no key
  bool open_probe = false;  // HEAD and OPTIONS need no key
  wire::ErrorForm errors = wire::ErrorForm::kOpenAi;
  BodyKind body = BodyKind::kJson;
  bool versioned = false;  // "/versions/V" may stand after {id}
};

std::span<const Route> Routes();

// The verdict on a request's head.
struct Decision {
  const Route* route = nullptr;  // null when there is none, or the key was missing
  Status refusal;                // OK = go on, and there is a route
  std::string argument;          // {id}, decoded
  std::string version;           // of a versioned route, decoded; empty = none was given
  std::string allow;             // for 405 and OPTIONS
  std::string cors_origin;       // to be echoed; empty = none
  bool head_only = false;        // HEAD: the answer without its body
  bool options = false;          // OPTIONS: 204 with `allow`
  bool preflight = false;        // a browser's question before a cross-origin request
  // What the request is counted as, where that is its model's to say.
  std::optional<telemetry::OpKind> model_op;
  // Of refusals without a route.
  wire::ErrorForm unrouted_errors = wire::ErrorForm::kOpenAi;

  std::string_view name() const {
    return route == nullptr ? std::string_view("-") : route->pattern;
  }
  wire::ErrorForm errors() const { return route == nullptr ? unrouted_errors : route->errors; }
  telemetry::OpKind op() const {
    return model_op.value_or(route == nullptr ? telemetry::OpKind::kOther : route->op);
  }
};

class Router {
 public:
  // `options` is copied; `loopback` tells whether the listening address is one.
  Router(const HttpOptions& options, bool loopback);

  // The order: host, origin, key, path, method, media type, expectation.
  Decision Decide(const HttpRequest& request) const;

 private:
  Status CheckHost(const HttpRequest& request) const;
  Status CheckOrigin(const HttpRequest& request, std::string* echo) const;
  bool HasValidKey(const HttpRequest& request) const;

  const std::vector<std::string> origins_, hosts_;
  const bool loopback_;
  const access::KeyCheck key_;
};

// The path of a request target without its query, or nothing when it is not in canonical form: no
// empty, "." or ".." segments, no escapes of characters that need none, nothing outside printable
// ASCII.
std::optional<std::string> CanonicalPath(std::string_view target);

// What the log shows of a target that may be anything: its path as sent, without scheme, authority
// and query. "-" when it has none, or when the path holds `key`, escaped or not; an empty key is
// held by none.
std::string PathForLog(std::string_view target, std::string_view key);

bool IsKnownMethod(
    std::string_view method);  // registered ones; others are client data and not logged
bool IsLoopbackAddress(std::string_view host);  // "localhost", 127/8, ::1

}  // namespace tutti::http
