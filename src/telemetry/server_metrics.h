// ServerMetrics: metrics of the servers (HTTP, gRPC, ...) that do not depend on a model: the
// `tutti_*` metrics without a model label.
//
// One per process, made by main; any thread. A call costs a few atomic adds (histograms: an
// uncontended lock each). Series are made on first use, because most processes use few of the
// servers and operations. RequestRejected() looks its series up by name, because its codes are an
// open set.
#pragma once

#include <memory>
#include <string_view>

#include "base/clock.h"
#include "telemetry/labels.h"
#include "telemetry/metrics.h"

namespace tutti::telemetry {

class ServerMetrics {
 public:
  explicit ServerMetrics(MetricsRegistry& registry);
  ~ServerMetrics();

  // parse auth tokenize queue prefill decode encode write; a template is in tokenize.
  void Stage(std::string_view stage, Duration took);
  void ServerRequest(ServerKind server, OpKind op, int code, Duration took);
  void InFlight(OpKind op, int delta);
  void StreamsOpen(ServerKind server, int delta);
  void SlowReaderCancelled(ServerKind server);
  void ConnectionReset(ServerKind server);      // the client violated the protocol
  void RequestRejected(std::string_view code);  // requests that do not reach a model

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::telemetry
