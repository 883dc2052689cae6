#include "telemetry/server_metrics.h"

#include <array>
#include <atomic>
#include <string>

#include "base/mutex.h"

namespace tutti::telemetry {
namespace {

constexpr std::array kStages = {"parse",   "auth",   "tokenize", "queue",
                                "prefill", "decode", "encode",   "write"};
// Status codes that servers answer with, those of gRPC first; any other is counted through the
// registry.
constexpr std::array kCodes = {0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,
                               11,  12,  13,  14,  15,  16,  200, 204, 400, 401, 403,
                               404, 405, 408, 409, 411, 413, 414, 415, 417, 421, 422,
                               424, 426, 429, 431, 499, 500, 501, 503, 504, 505};
constexpr size_t kServers = static_cast<size_t>(ServerKind::kGrpc) + 1;
constexpr size_t kOps = static_cast<size_t>(OpKind::kOther) + 1;

template <typename Values, typename Value>
size_t IndexOf(const Values& values, const Value& value) {
  size_t i = 0;
  while (i < values.size() && value != values[i]) ++i;
  return i;
}

// A series that is made when it is first used: its label sets are too many to stand at zero. After
// that a look at it costs one load.
template <typename Handle>
class LazySeries {
 public:
  template <typename Make>
  Handle& Get(Mutex& mutex, Make make) {
    if (!made_.load(std::memory_order_acquire)) {
      const MutexLock lock(mutex);
      if (!made_.load(std::memory_order_relaxed)) {
        handle_ = make();
        made_.store(true, std::memory_order_release);
      }
    }
    return handle_;
  }

 private:
  std::atomic<bool> made_{false};
  Handle handle_;
};

// `labels` and those that name the server; `door` is the older name.
MetricLabels With(ServerKind server, MetricLabels labels = {}) {
  labels.emplace("door", LabelOf(server));
  labels.emplace("server", LabelOf(server));
  return labels;
}

}  // namespace

struct ServerMetrics::Impl {
  Histogram Stage(std::string_view stage) {
    return registry.GetHistogram("tutti_stage_seconds", "Time of requests in seconds, by stage",
                                 ShortLatencyBuckets(), {{"stage", std::string(stage)}});
  }

  MetricsRegistry& registry;
  Mutex mutex = {};  // of the making of lazy series
  std::array<LazySeries<Histogram>, kStages.size()> stages = {};
  std::array<std::array<std::array<LazySeries<Counter>, kCodes.size()>, kOps>, kServers> answered =
      {};
  std::array<std::array<LazySeries<Histogram>, kOps>, kServers> answer_time = {};
  std::array<LazySeries<Gauge>, kOps> in_flight = {};
  std::array<LazySeries<Gauge>, kServers> streams = {};
  std::array<LazySeries<Counter>, kServers> slow_readers = {};
  std::array<LazySeries<Counter>, kServers> connections_reset = {};
};

ServerMetrics::ServerMetrics(MetricsRegistry& registry) : impl_(new Impl{registry}) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::Stage(std::string_view stage, Duration took) {
  Impl& i = *impl_;
  const size_t at = IndexOf(kStages, stage);
  const auto make = [&] { return i.Stage(stage); };
  (at < kStages.size() ? i.stages[at].Get(i.mutex, make) : make()).Observe(ToSeconds(took));
}

void ServerMetrics::ServerRequest(ServerKind server, OpKind op, int code, Duration took) {
  Impl& i = *impl_;
  const auto d = static_cast<size_t>(server), o = static_cast<size_t>(op);
  const size_t at = IndexOf(kCodes, code);
  const auto count = [&] {
    return i.registry.GetCounter(
        "tutti_requests_total", "Requests answered, by route and status",
        With(server, {{"op", LabelOf(op)}, {"code", std::to_string(code)}}));
  };
  (at < kCodes.size() ? i.answered[d][o][at].Get(i.mutex, count) : count()).Add();
  const auto time = [&] {
    return i.registry.GetHistogram(
        "tutti_request_seconds",
        "Time between a request's arrival and the end of its answer, in seconds", LatencyBuckets(),
        With(server, {{"op", LabelOf(op)}}));
  };
  i.answer_time[d][o].Get(i.mutex, time).Observe(ToSeconds(took));
}

void ServerMetrics::InFlight(OpKind op, int delta) {
  Impl& i = *impl_;
  const auto make = [&] {
    return i.registry.GetGauge("tutti_requests_in_flight", "Requests being answered",
                               MetricLabels({{"op", LabelOf(op)}}));
  };
  i.in_flight[static_cast<size_t>(op)].Get(i.mutex, make).Add(delta);
}

void ServerMetrics::StreamsOpen(ServerKind server, int delta) {
  Impl& i = *impl_;
  const auto make = [&] {
    return i.registry.GetGauge("tutti_streams_open", "Open streams", With(server));
  };
  i.streams[static_cast<size_t>(server)].Get(i.mutex, make).Add(delta);
}

void ServerMetrics::SlowReaderCancelled(ServerKind server) {
  Impl& i = *impl_;
  const auto make = [&] {
    return i.registry.GetCounter("tutti_slow_reader_cancels_total",
                                 "Requests cancelled because the client stopped reading",
                                 With(server));
  };
  i.slow_readers[static_cast<size_t>(server)].Get(i.mutex, make).Add();
}

void ServerMetrics::ConnectionReset(ServerKind server) {
  Impl& i = *impl_;
  const auto make = [&] {
    return i.registry.GetCounter(
        "tutti_connections_reset_total",
        "Connections reset because the client violated the protocol's limits", With(server));
  };
  i.connections_reset[static_cast<size_t>(server)].Get(i.mutex, make).Add();
}

void ServerMetrics::RequestRejected(std::string_view code) {
  SeriesMaker{impl_->registry, {}}.RejectedRequests(code).Add();
}

}  // namespace tutti::telemetry
