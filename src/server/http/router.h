// Router: decides which route answers a request, and whether the request may use it. Default deny:
// unless the server is open, every route except the health probes requires a credential, and a
// request without one is refused before it shows whether the route exists. Immutable; the
// Authenticator holds the keys. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/error.h"
#include "server/access/listen_rules.h"
#include "server/http/connection/http_server.h"
#include "server/http/connection/message_parser.h"
#include "server/http/routes.h"
#include "services/auth/authenticator.h"
#include "telemetry/labels.h"

namespace tutti::http {

// The verdict on a request's head.
struct Decision {
  const Route* route = nullptr;  // null: no such route, or no key
  auth::PrincipalRef principal;  // the caller; null if no credential is required
  // The request has no credential, and may send it in the first message over its WebSocket; until
  // then it may do nothing else.
  bool asks_later = false;
  std::string claim = "-";     // claimed name of a rejected credential; for logs
  Status refusal;              // OK: proceed, and there is a route
  std::string argument, item;  // {id} or the {part}s, decoded
  std::string version;         // of a versioned route, decoded; empty = none was given
  std::string allow;           // for 405 and OPTIONS
  std::string cors_origin;     // to be echoed; empty = none
  bool head_only = false;      // HEAD: the answer without its body
  bool options = false;        // OPTIONS: 204 with `allow`
  bool preflight = false;      // a browser's question before a cross-origin request
  // The operation under which the request is counted, if its model determines it.
  std::optional<telemetry::OpKind> model_op;
  // Format of errors without a route.
  protocol::ErrorForm unrouted_errors = protocol::ErrorForm::kOpenAi;

  std::string_view name() const {
    return route == nullptr ? std::string_view("-") : route->pattern;
  }
  protocol::ErrorForm errors() const { return route == nullptr ? unrouted_errors : route->errors; }
  telemetry::OpKind op() const {
    return model_op.value_or(route == nullptr ? telemetry::OpKind::kOther : route->op);
  }
};

class Router {
 public:
  // `options` is copied; `loopback`: whether the server listens on a loopback address; `authority`
  // outlives the router.
  Router(const HttpOptions& options, bool loopback, const auth::Authenticator& authority);

  // Checks in this order: the target against the Host field, host and origin, credential, known
  // method, path, the route's methods, scope, whether this server offers it, media type,
  // expectation.
  // `certificate`: that of the connection; null if there is none.
  Decision Decide(const HttpRequest& request,
                  const auth::CertifiedName* certificate = nullptr) const;

  // Whether callers need a credential.
  bool NeedsCredential() const { return !authority_.IsOpen(loopback_); }

 private:
  // Authenticates the caller; an anonymous one if the server is open. Errors: invalid_api_key,
  // key_revoked.
  Result<auth::PrincipalRef> ResolveCaller(const HttpRequest& request,
                                           const auth::CertifiedName* certificate) const;

  bool MaySayLater(const Route* route, const HttpRequest& request,
                   const auth::CertifiedName* certificate) const;

  const access::WebRule web_rule_;
  const std::string base_;  // HttpOptions::web_base
  const bool loopback_;
  const auth::Authenticator& authority_;
};

// Whether the method is registered; other methods are client data and not logged.
bool IsKnownMethod(std::string_view method);

}  // namespace tutti::http
