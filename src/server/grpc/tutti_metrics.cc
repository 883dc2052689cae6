// tutti.v1: Metrics.
#include <tutti/v1/tutti.pb.h>

#include "server/grpc/services.h"
#include "server/grpc/unary.h"

namespace tutti::rpc {
namespace {

void Set(const LatencySummary& summary, v1::CallMetrics* out) {
  out->set_method(summary.method);
  out->set_count(summary.count);
  out->set_errors(summary.errors);
  out->set_avg_ms(summary.avg_ms);
  out->set_p50_ms(summary.p50_ms);
  out->set_p95_ms(summary.p95_ms);
  out->set_p99_ms(summary.p99_ms);
  out->set_max_ms(summary.max_ms);
  out->set_throughput(summary.per_second);
}

Status Metrics(Call& call, const v1::MetricsRequest& request, v1::MetricsResponse* response) {
  const WindowSummary window = call.context().window.Read(request.reset());
  response->set_window_s(ToSeconds(window.window));
  Set(window.total, response->mutable_total());
  for (const LatencySummary& method : window.methods) Set(method, response->add_methods());
  return OkStatus();
}

}  // namespace

std::unique_ptr<CallHandler> MakeMetrics(Call& call) {
  return Unary<v1::MetricsRequest, v1::MetricsResponse, Metrics>::Make(call);
}

}  // namespace tutti::rpc
