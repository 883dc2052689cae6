// One inference request of KServe v2 over HTTP, from its head and body to its execution. For the
// exchanges that answer it (kserve_infer_exchange.cc, kserve_stream_exchange.cc).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/http/connection.h"
#include "doors/http/content_coding.h"
#include "kserve/json/request.h"
#include "kserve/repository.h"
#include "telemetry/labels.h"

namespace tutti::http {

// What the head says and what is needed beside it; values, for a helper thread.
struct KserveHead {
  RouteId route = RouteId::kKserveInfer;
  std::string model, version;
  ContentCoding coding;
  std::optional<std::string> json_bytes;  // Inference-Header-Content-Length, as sent
  size_t most_bytes = 0;                  // of the body, inflated
  kserve::JsonReadOptions read;
  TimePoint deadline = TimePoint::max();
  std::string request_id;
  api::CallerRef caller;
  std::shared_ptr<api::RateLimits> rate_limits;
  api::CacheControl cache;
  std::shared_ptr<api::CacheReport> cache_report;
  std::string usage_route;
  kserve::Repository* repository = nullptr;
  MemoryBudget* budget = nullptr;
  std::shared_ptr<api::StreamWaker> waker;

  // Errors: invalid_value for a field of the head.
  static Result<KserveHead> Of(RouteId route, Connection& connection);
  // Bodies up to so many bytes are read on the io thread.
  size_t inline_bytes() const;
};

struct KserveRun {
  std::string model;                                 // its name, as it is known here
  kserve::RequestBody asked;                         // of its request the id is left
  telemetry::OpKind op = telemetry::OpKind::kOther;  // what the model does
  bool empty_final = false;                          // the end is told in a response of its own
  Status failure;                                    // why there is no execution
  Connection::Origin origin = Connection::Origin::kDoor;  // of the failure
  std::unique_ptr<kserve::Execution> execution;

  // Understands `body` and starts its request. Any thread.
  static KserveRun Begin(const KserveHead& head, std::string_view body);
};

}  // namespace tutti::http
