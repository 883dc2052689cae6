// The table of methods: what answers each, and whether it may be asked without a key. Pure.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "doors/grpc/call.h"
#include "services/auth/scopes.h"
#include "telemetry/labels.h"

namespace tutti::rpc {

struct Method {
  std::string_view path;  // "/grpc.health.v1.Health/Check"
  std::unique_ptr<Exchange> (*make)(Call& call);
  auth::RouteClasses rule;  // who may ask has one of these scopes; kPublic: nobody is asked
  telemetry::OpKind op = telemetry::OpKind::kOther;
  bool open = false;  // asked without a key; what it then tells is its own business
  bool watches =
      false;  // lasts until its client has enough: no drain waits for it, no log names it
  bool handled = false;  // its messages wait for a handler: their requests are prepared
  bool measured = true;  // counts in the latency window
};

std::span<const Method> Methods();
const Method* FindMethod(std::string_view path);  // null for an unknown one

}  // namespace tutti::rpc
