// Exporter: sends the spans of requests that have ended to an OpenTelemetry collector, by POST of
// protobuf to its OTLP/HTTP endpoint.
//
// One thread of its own takes ended requests from api::RequestTraces a few times a second and sends
// them in batches. A batch that the collector does not take (no connection, 429, 502 to 504) is
// sent again after growing waits, at most kAttempts times; meanwhile RequestTraces keeps a bounded
// number of further requests. All other answers except 2xx drop the batch. No request waits for any
// of it.
#pragma once

#include <otlp/trace.pb.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/request_trace.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/background/retry.h"
#include "services/post/target.h"

namespace tutti::traces {

// The collector's URL: [http://|https://]HOST[:PORT][/PATH]. Without a scheme it is http, without a
// port 4318, without a path /v1/traces. Errors: invalid_value.
Result<post::Target> ParseEndpoint(std::string_view url);

// "name=value,name=value", values percent-encoded, as OTEL_RESOURCE_ATTRIBUTES and
// OTEL_EXPORTER_OTLP_HEADERS have them. Errors: invalid_value.
using Pairs = std::vector<std::pair<std::string, std::string>>;
Result<Pairs> ParsePairs(std::string_view text);

struct ExportStats {
  uint64_t exported = 0;  // requests whose spans the collector has taken
  uint64_t failed = 0;    // requests dropped because the collector did not take them
  uint64_t dropped = 0;   // requests dropped because too many were waiting
};

class Exporter {
 public:
  static constexpr int kAttempts = 5;
  static constexpr size_t kBatch = 512;  // requests in one POST

  struct Options {
    post::Target endpoint;
    Pairs headers;   // added to each POST
    Pairs resource;  // attributes that identify this process: service.name...
    std::string version;
    std::string ca_file;  // PEM of authorities in addition to the system's; empty: none
    // Between two looks for requests that have ended. Looks every 200 ms cost throughput
    // (docs/decisions/0081).
    std::chrono::milliseconds interval{1'000};
    std::chrono::milliseconds timeout{10'000};   // limit of one POST
    std::chrono::milliseconds last_wait{2'000};  // limit for all POSTs that the destructor begins
    std::vector<Duration> backoff = {std::chrono::seconds(1), std::chrono::seconds(2),
                                     std::chrono::seconds(4), std::chrono::seconds(8)};
  };

  // `traces` collects for an exporter (RequestTraces::CollectForExport). `log` may be null and
  // outlives the exporter.
  Exporter(Options options, std::shared_ptr<api::RequestTraces> traces, Logger* log);
  // Sends what has ended, each batch at most once, and waits for a POST that is under way.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  ExportStats stats() const;  // any thread

 private:
  using Batch = std::vector<std::shared_ptr<const api::RequestTrace>>;

  void Run();
  bool WaitFor(Duration time);  // false: the exporter is being destroyed
  void Send(std::span<const std::shared_ptr<const api::RequestTrace>> requests);
  std::string BodyOf(std::span<const std::shared_ptr<const api::RequestTrace>> requests) const;
  // OK, or why the collector did not take it; `retry_after` as it asks for.
  Status Post(const std::string& body, std::optional<Duration>* retry_after);
  void Note(const Status& status, size_t requests);

  const Options options_;
  const std::shared_ptr<api::RequestTraces> traces_;
  Logger* const log_;
  post::LookUps look_ups_;
  background::RetryPolicy retry_;
  std::atomic<uint64_t> exported_{0}, failed_{0};
  bool failing_ = false;  // the exporter's thread
  Mutex mutex_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  TimePoint last_until_ GUARDED_BY(mutex_);  // set with `stop_`: no POST begins later
  std::thread thread_;                       // last
};

}  // namespace tutti::traces
