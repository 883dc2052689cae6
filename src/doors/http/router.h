// Router: what a request may do and which route answers it. Default deny: every route but the
// health ones asks for a credential, unless the server is open, before it is even looked up.
// Immutable; what it knows of keys is the authority's. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "doors/access/web_rule.h"
#include "doors/http/http_door.h"
#include "doors/http/message_parser.h"
#include "doors/http/routes.h"
#include "services/auth/authority.h"
#include "telemetry/labels.h"
#include "wire/error.h"

namespace tutti::http {

// The verdict on a request's head.
struct Decision {
  const Route* route = nullptr;  // null when there is none, or the key was missing
  auth::PrincipalRef principal;  // who asks; null where nobody was asked for a credential
  // It shows nothing of who asks, and may say so in the first message over its WebSocket: until
  // then it may do nothing else.
  bool asks_later = false;
  std::string claim = "-";     // as whom it presented itself where it was not believed; for logs
  Status refusal;              // OK = go on, and there is a route
  std::string argument, item;  // {id} or the {part}s, decoded
  std::string version;         // of a versioned route, decoded; empty = none was given
  std::string allow;           // for 405 and OPTIONS
  std::string cors_origin;     // to be echoed; empty = none
  bool head_only = false;      // HEAD: the answer without its body
  bool options = false;        // OPTIONS: 204 with `allow`
  bool preflight = false;      // a browser's question before a cross-origin request
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
  // `options` is copied; `loopback` tells whether the listening address is one; `authority`
  // outlives it.
  Router(const HttpOptions& options, bool loopback, const auth::Authority& authority);

  // The order: host, origin, credential, path, method, scope, media type, expectation.
  // `certificate`: of the connection; null where it has none.
  Decision Decide(const HttpRequest& request,
                  const auth::CertifiedName* certificate = nullptr) const;

 private:
  // Who asks: nobody in particular where the server is open. Errors: invalid_api_key, key_revoked.
  Result<auth::PrincipalRef> WhoAsks(const HttpRequest& request,
                                     const auth::CertifiedName* certificate) const;

  bool MaySayLater(const Route* route, const HttpRequest& request,
                   const auth::CertifiedName* certificate) const;

  const access::WebRule web_rule_;
  const bool loopback_;
  const auth::Authority& authority_;
};

// Registered ones; others are client data and not logged.
bool IsKnownMethod(std::string_view method);

}  // namespace tutti::http
