// One inference request of KServe v2 over HTTP, from its head and body to its execution. Used by
// the handlers that answer it (kserve_handler.cc).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/kserve/json/request.h"
#include "protocol/kserve/repository.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/content_coding.h"
#include "telemetry/labels.h"

namespace tutti::http {

// The head of the request and the context of its execution, as values for a helper thread.
struct KserveHead {
  RouteId route = RouteId::kKserveInfer;
  std::string model, version;
  ContentCoding coding;
  std::optional<std::string> json_bytes;  // Inference-Header-Content-Length, as sent
  size_t max_bytes = 0;                   // limit of the inflated body
  kserve::JsonReadOptions read;
  TimePoint deadline = TimePoint::max();
  std::string request_id;
  TraceContext trace_context;
  api::CallerRef caller;
  std::shared_ptr<api::RateLimits> rate_limits;
  api::CacheControl cache;
  std::shared_ptr<api::CacheReport> cache_report;
  std::string usage_route;
  kserve::Repository* repository = nullptr;
  MemoryBudget* budget = nullptr;
  std::shared_ptr<Waker> waker;

  // Errors: invalid_value for a field of the head.
  static Result<KserveHead> Of(RouteId route, Connection& connection);
  // Size up to which a body is read on the I/O thread.
  size_t inline_bytes() const;
};

struct KserveRun {
  std::string model;          // name of the model as served
  kserve::RequestBody asked;  // the parsed body; of its request only the id remains
  telemetry::OpKind op = telemetry::OpKind::kOther;  // operation of the model
  bool empty_final = false;                          // the end is sent as a response of its own
  Status failure;                                    // not OK: why there is no execution
  Connection::Origin origin = Connection::Origin::kServer;  // origin of the failure
  std::unique_ptr<kserve::Execution> execution;

  // Parses `body` and starts its request. Any thread.
  static KserveRun Begin(const KserveHead& head, std::string_view body);
};

}  // namespace tutti::http
