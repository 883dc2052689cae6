// The table of gRPC methods: the handler of each, and the scopes that it requires. Pure.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "server/grpc/call.h"
#include "services/auth/scopes.h"
#include "telemetry/labels.h"

namespace tutti::rpc {

struct Method {
  std::string_view path;  // "/grpc.health.v1.Health/Check"
  std::unique_ptr<CallHandler> (*make)(Call& call);
  auth::RouteClasses rule;  // required scopes, any of them; kPublic: no authentication
  telemetry::OpKind op = telemetry::OpKind::kOther;
  bool open = false;     // callable without a key; the handler decides what it reveals
  bool watches = false;  // lasts until its client ends it: not drained, not logged
  bool handled = false;  // its messages wait for a handler that prepares their requests
  bool measured = true;  // counts in the latency window
};

std::span<const Method> Methods();
const Method* FindMethod(std::string_view path);  // null if unknown

}  // namespace tutti::rpc
