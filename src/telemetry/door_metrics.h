// What doors count of the requests they answer, whatever model those are for: the `tutti_*` metrics
// without a model's label.
//
// One per process, made by the composition root; any thread. A call is a handful of atomic adds
// (histograms: an uncontended lock each). Most doors and operations a process never sees: their
// series are made when first used. RequestRejected() alone, whose codes are an open set, looks its
// series up.
#pragma once

#include <memory>
#include <string_view>

#include "base/clock.h"
#include "telemetry/labels.h"
#include "telemetry/metrics.h"

namespace tutti::telemetry {

class DoorMetrics {
 public:
  explicit DoorMetrics(MetricsRegistry& registry);
  ~DoorMetrics();

  // parse auth tokenize queue prefill decode encode write; a template is in tokenize.
  void Stage(std::string_view stage, Duration took);
  void DoorRequest(DoorKind door, OpKind op, int code, Duration took);
  void InFlight(OpKind op, int delta);
  void StreamsOpen(DoorKind door, int delta);
  void SlowReaderCancelled(DoorKind door);
  void ConnectionReset(DoorKind door);          // of a client that abused the door
  void RequestRejected(std::string_view code);  // what does not reach a model

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::telemetry
