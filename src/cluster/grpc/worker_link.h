// WorkerLink: a worker's connection to its frontend: connects, announces the models, and carries
// calls and answers. If the frontend goes away, it connects again, for its lifetime, while the
// models stay loaded.
//
// Made, drained and destroyed by one thread. A thread of its own connects and sends; messages of
// the frontend are read on threads of the gRPC library. This header includes no header of that
// library.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "cluster/relay.h"

namespace tutti::cluster {

class WorkerLink {
 public:
  // `path`: the frontend's socket. `hello`: as for Relay::Announce(). `log` may be null. `ports`,
  // its clock and `log` outlive the link. Errors: invalid_value (the path), overloaded (no thread).
  static Result<std::unique_ptr<WorkerLink>> Open(const std::string& path, v1::Hello hello,
                                                  Relay::Ports ports, Logger* log);
  virtual ~WorkerLink() = default;

  // Whether a frontend has currently attached the worker.
  virtual bool attached() const = 0;
  // Sends the state of the models now, not only at the next heartbeat. Any thread.
  virtual void BeatSoon() = 0;
  // Asks the frontend for no new calls, waits for running ones, and disconnects. True if all have
  // finished.
  virtual bool Drain(Duration limit) = 0;
};

}  // namespace tutti::cluster
